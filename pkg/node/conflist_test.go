package node

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestInsert(t *testing.T) {
	t.Parallel()
	const ours = `{"type":"winnpm-cni","mode":"wait","waitSeconds":10}`
	tests := map[string]struct{ file, want string }{
		"own lines":      {"{\n  \"plugins\": [\n    {\"type\": \"a\"}\n  ]\n}\n", "{\n  \"plugins\": [\n    {\"type\": \"a\"},\n    " + ours + "\n  ]\n}\n"},
		"one line":       {`{"plugins": [{"type": "a"}, {"type": "b"} ]}`, `{"plugins": [{"type": "a"}, {"type": "b"}, ` + ours + ` ]}`},
		"none":           {`{"plugins":[ ]}`, `{"plugins":[` + ours + ` ]}`},
		"nested":         {`{"a":{"plugins":[{"type":"x"}]},"plugins":[{"type":"a","plugins":[1]}]}`, `{"a":{"plugins":[{"type":"x"}]},"plugins":[{"type":"a","plugins":[1]},` + ours + `]}`},
		"there":          {`{"plugins":[{"type":"a"},{ "waitSeconds":10, "mode":"wait", "type":"winnpm-cni" }]}`, `{"plugins":[{"type":"a"},{ "waitSeconds":10, "mode":"wait", "type":"winnpm-cni" }]}`},
		"other settings": {`{"plugins":[{"type":"a"}, {"type":"winnpm-cni","mode":"off"} ,{"type":"b"}]}`, `{"plugins":[{"type":"a"} ,{"type":"b"},` + ours + `]}`},
		"there twice":    {`{"plugins":[` + ours + `,{"type":"a"},` + ours + `]}`, `{"plugins":[{"type":"a"},` + ours + `]}`},
		"large number":   {`{"n":1e999999,"plugins":[{"type":"a"}]}`, `{"n":1e999999,"plugins":[{"type":"a"},` + ours + `]}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := insertEntry([]byte(tt.file), PluginEntry{Mode: "wait", WaitSeconds: 10})
			require.NoError(t, err)
			require.Equal(t, tt.want, string(got))
		})
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		file string
		want error
	}{
		"empty":              {``, errInvalidList},
		"half":               {`{"plugins":[`, errInvalidList},
		"trailing comma":     {`{"plugins":[{"type":"a"},]}`, errInvalidList},
		"comment":            {"// x\n{\"plugins\":[]}", errInvalidList},
		"byte order mark":    {"\xef\xbb\xbf{\"plugins\":[]}", errInvalidList},
		"two documents":      {`{"plugins":[]}{"plugins":[]}`, errInvalidList},
		"duplicate":          {`{"plugins":[],"plugins":[]}`, errInvalidList},
		"duplicate, escaped": {`{"plugins":[],"plugin\u0073":[]}`, errInvalidList},
		"array":              {`[]`, errInvalidList},
		"plugins an object":  {`{"plugins":{}}`, errInvalidList},
		"plugin a string":    {`{"plugins":["a"]}`, errInvalidList},
		"plugin null":        {`{"plugins":[null]}`, errInvalidList},
		"type a number":      {`{"plugins":[{"type":1}]}`, errInvalidList},
		"no plugins":         {`{"name":"a"}`, errInvalidList},
		"single plugin":      {`{"cniVersion":"0.3.0","type":"flannel"}`, errSinglePlugin},
		"large":              {`{"plugins":[]}` + strings.Repeat(" ", maxListBytes), errListTooLarge},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := insertEntry([]byte(tt.file), PluginEntry{})
			require.ErrorIs(t, err, tt.want)
			_, err = removeEntry([]byte(tt.file))
			require.ErrorIs(t, err, tt.want)
		})
	}
}

// Whatever a list looks like: it comes back to the byte, in between it is the same list
// with our plugin behind it, and a second time changes nothing.
func TestInsertAndRemove(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		file := drawList(t)
		first, second := drawEntry(t), drawEntry(t)

		with, err := insertEntry(file, first)
		require.NoError(t, err, "%s", file)
		again, err := insertEntry(with, first)
		require.NoError(t, err)
		require.Equal(t, string(with), string(again), "twice")
		other, err := insertEntry(with, second)
		require.NoError(t, err)
		afresh, err := insertEntry(file, second)
		require.NoError(t, err)
		require.Equal(t, string(afresh), string(other), "other settings")

		var before, after map[string]any
		decode(t, file, &before)
		decode(t, other, &after)
		plugins := after["plugins"].([]any)
		require.Equal(t, PluginType, plugins[len(plugins)-1].(map[string]any)["type"])
		after["plugins"] = plugins[:len(plugins)-1]
		require.Equal(t, before, after)

		for _, text := range [][]byte{file, with, other} {
			without, err := removeEntry(text)
			require.NoError(t, err)
			require.Equal(t, string(file), string(without))
		}
	})
}

func decode(t *rapid.T, text []byte, into any) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(into), "%s", text)
}

func drawEntry(t *rapid.T) PluginEntry {
	return PluginEntry{
		Mode:        rapid.SampledFrom([]string{"", "strict", "wait", "off"}).Draw(t, "mode"),
		WaitSeconds: rapid.IntRange(0, 300).Draw(t, "wait"),
		Pipe:        rapid.SampledFrom([]string{"", `\\.\pipe\third`}).Draw(t, "pipe"),
	}
}

// drawList draws a valid list without our plugin, with any white space.
func drawList(t *rapid.T) []byte {
	var plugins, members []string
	for i := range rapid.IntRange(0, 3).Draw(t, "plugins") {
		plugins = append(plugins, drawObject(t, 2, fmt.Sprintf(`"type"%s:"p%d"`, drawSpace(t), i)))
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "members") {
		members = append(members, fmt.Sprintf(`"m%d"%s:%s`, i, drawSpace(t), drawValue(t, 2)))
	}
	members = append(members, `"plugins"`+drawSpace(t)+":"+drawSpace(t)+join(t, "[", plugins, "]"))
	return []byte(drawSpace(t) + join(t, "{", rapid.Permutation(members).Draw(t, "order"), "}") + drawSpace(t))
}

// drawObject draws an object with a member.
func drawObject(t *rapid.T, depth int, member string) string {
	members := []string{member}
	for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{`"plugins"`, `"a b"`, `"\"],"`, `"ü"`}), 0, 2, rapid.ID[string]).Draw(t, "keys") {
		members = append(members, key+drawSpace(t)+":"+drawSpace(t)+drawValue(t, depth-1))
	}
	return join(t, "{", members, "}")
}

func drawValue(t *rapid.T, depth int) string {
	kinds := 3
	if depth > 0 {
		kinds = 5
	}
	switch rapid.IntRange(1, kinds).Draw(t, "kind") {
	case 1:
		return rapid.SampledFrom([]string{"0", "-1.50e3", "12345678901234567890", "true", "null"}).Draw(t, "word")
	case 2:
		return rapid.SampledFrom([]string{`""`, `"]}, \\"`, `"\"plugins\": ["`, `"winnpm-cni"`}).Draw(t, "string")
	case 3:
		return "[" + drawSpace(t) + "]"
	case 4:
		return join(t, "[", []string{drawValue(t, depth-1), drawValue(t, depth-1)}, "]")
	default:
		return drawObject(t, depth, `"type":"winnpm-cni"`)
	}
}

func join(t *rapid.T, open string, parts []string, end string) string {
	text := open + drawSpace(t)
	for i, part := range parts {
		if i > 0 {
			text += drawSpace(t) + "," + drawSpace(t)
		}
		text += part
	}
	return text + drawSpace(t) + end
}

func drawSpace(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "", " ", "\n", "\r\n", "\t", "\n    ", " \r\n\t\r"}).Draw(t, "space")
}
func TestCheckVersion(t *testing.T) {
	t.Parallel()
	for _, v := range []string{"0.3.0", "1.0.0", "1.1.0"} {
		require.NoError(t, checkVersion([]byte(`{"cniVersion":"`+v+`","name":"n","plugins":[{"type":"a"}]}`)))
	}
	for _, file := range []string{
		`{"cniVersion":"0.2.0","name":"n","plugins":[{"type":"a"}]}`,
		`{"name":"n","plugins":[{"type":"a"}]}`,
		`{"cniVersion":"2.0.0","name":"n","plugins":[{"type":"a"}]}`,
	} {
		require.ErrorIs(t, checkVersion([]byte(file)), errListVersion, file)
	}
}

// TestInsertAtTheBound: what Insert writes Remove takes out, at any size that Insert takes.
func TestInsertAtTheBound(t *testing.T) {
	t.Parallel()
	for _, short := range []int{0, 30, 60, 200} {
		file := []byte(`{"plugins":[{"type":"a"}]}`)
		file = append(file, strings.Repeat(" ", maxListBytes-short-len(file))...)
		with, err := insertEntry(file, PluginEntry{Mode: "wait"})
		if short < 60 {
			require.ErrorIs(t, err, errListTooLarge)
			continue
		}
		require.NoError(t, err)
		without, err := removeEntry(with)
		require.NoError(t, err)
		require.Equal(t, string(file), string(without))
	}
}
