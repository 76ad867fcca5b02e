package explain_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/bounded"
	"github.com/winnpm/winnpm/tool/explain"
)

// FuzzParse: a question that is understood is written and read the same way again.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"x/web -> z/db:5432/TCP", "10.0.0.1->node:53/udp", "->:/", "x/y->fd00::1:1/SCTP"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := explain.Parse(text)
		if err != nil {
			require.Zero(t, q)
			return
		}
		again, err := explain.Parse(q.String())
		require.NoError(t, err)
		require.Equal(t, q, again)
	})
}

// tiny is a dump that is quick to take apart.
const tiny = `{"NodeName":"n","time":"2026-01-02T03:04:05Z",
"sets":[{"id":"azure-npm-1","name":"podlabel-a:b","type":"IPSET","members":["10.0.0.2"],"inHNS":true,"missing":["10.0.0.2"]},
{"id":"azure-npm-2","name":"nslabel-{a notin (b)}","type":"NESTEDIPSET","members":["podlabel-a:b"],"inHNS":true}],
"endpoints":[{"id":"e","pod":"x/a","known":true,"applied":[{"Id":"azure-acl-x.p","Action":"Allow","Direction":"In","Priority":222,
"LocalAddresses":"azure-npm-1,azure-npm-2","LocalPorts":"80-90","Protocols":"6"}],"wanted":[{"Id":"azure-acl-npm-block-in","Action":"Block","Direction":"In","Priority":3000}]}],
"policies":[{"policy":"x/p","ingress":true,"selected":["x/a"],"spec":{"podSelector":{},"ingress":[{"from":[{"podSelector":{"matchLabels":{"a":"c"}}}]}]}}],
"pods":[{"pod":"x/a","address":"10.0.0.1","local":true,"owner":true,"endpoints":["e"]},{"pod":"x/b","address":"10.0.0.2","labels":{"a":"b"},"owner":true}],
"nodeAddresses":["10.9.0.1"]}`

// FuzzExplain: whatever a dump says, there is an answer or an error, and a page
// of printable lines that begins with the verdict.
func FuzzExplain(f *testing.F) {
	for _, question := range []string{"x/b->x/a:80/TCP", "node->x/a:53/UDP"} {
		f.Add([]byte(tiny), question)
	}
	f.Fuzz(func(t *testing.T, dump []byte, question string) {
		d, err := bounded.ReadDump(bytes.NewReader(dump))
		if err != nil {
			return
		}
		if q, err := explain.Parse(question); err == nil {
			answers(t, d, q)
		}
	})
}

// answers checks what must hold of the answer from any dump, and reports whether
// there was one.
func answers(t require.TestingT, d state.Dump, q explain.Question) bool {
	a, err := explain.Explain(d, q, nil)
	if err != nil {
		require.ErrorIs(t, err, explain.ErrNoEnd)
		return false
	}
	var b strings.Builder
	require.NoError(t, a.WriteText(&b))
	require.True(t, strings.HasPrefix(b.String(), strings.ToUpper(string(a.Verdict))+"  "))
	for line := range strings.Lines(b.String()) {
		strange := func(r rune) bool { return !unicode.IsPrint(r) && r != '\uFFFD' }
		require.False(t, strings.ContainsFunc(strings.TrimSuffix(line, "\n"), strange), "%q", line)
	}
	_, err = json.Marshal(a)
	require.NoError(t, err)
	return true
}

// TestCorruptedDump: parts of a dump are missing, or stand where others belong.
func TestCorruptedDump(t *testing.T) {
	d, _ := snapshot(t)
	d.Reports = nil
	whole, err := json.Marshal(d)
	require.NoError(t, err)
	answered := 0
	rapid.Check(t, func(t *rapid.T) {
		var tree any
		require.NoError(t, json.Unmarshal(whole, &tree))
		values := []any{nil, "", "x/web", "10.0.0.2", "fd00::1", "azure-npm-1", "ns-", "podselector-", "namedport:a", -1.0, 1e9, []any{}, map[string]any{}}
		for range rapid.IntRange(1, 8).Draw(t, "corruptions") {
			corrupt(t, tree, rapid.SampledFrom(values).Draw(t, "value"))
		}
		text, err := json.Marshal(tree)
		require.NoError(t, err)
		var d state.Dump
		if json.Unmarshal(text, &d) != nil {
			return // of another type: it would not be read
		}
		for _, question := range []string{"x/web->z/db:5432/TCP", "z/cache-0->z/db:80/UDP", "node->z/cache-0:1/SCTP", "x/far->x/web:80/TCP"} {
			q, err := explain.Parse(question)
			require.NoError(t, err)
			if answers(t, d, q) {
				answered++
			}
		}
	})
	require.Positive(t, answered)
}

// corrupt replaces something below a value of JSON.
func corrupt(t *rapid.T, at, value any) {
	for {
		deeper := rapid.IntRange(0, 4).Draw(t, "deeper") > 0
		switch v := at.(type) {
		case map[string]any:
			if len(v) == 0 {
				return
			}
			key := rapid.SampledFrom(slices.Sorted(maps.Keys(v))).Draw(t, "key")
			if !deeper || scalar(v[key]) {
				v[key] = value
				return
			}
			at = v[key]
		case []any:
			if len(v) == 0 {
				return
			}
			i := rapid.IntRange(0, len(v)-1).Draw(t, "index")
			if !deeper || scalar(v[i]) {
				v[i] = value
				return
			}
			at = v[i]
		default:
			return
		}
	}
}

func scalar(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}
