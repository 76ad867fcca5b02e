package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestPrintableText(t *testing.T) {
	for in, want := range map[string]string{
		"plain\nlines\n":      "plain\nlines\n",
		"\x1b[31mred\x07\r\t": "\uFFFD[31mred\uFFFD\uFFFD\uFFFD",
		"é\u009b\u202e\x7f":   "é\uFFFD\uFFFD\uFFFD",
		"a\xffb":              "a\uFFFDb",
	} {
		var whole bytes.Buffer
		n, err := PrintableText(&whole).Write([]byte(in))
		require.NoError(t, err)
		require.Equal(t, len(in), n)
		require.Equal(t, want, whole.String())
	}
	_, err := PrintableText(broken{}).Write([]byte("\x1b"))
	require.ErrorIs(t, err, io.ErrClosedPipe)
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.Join(io.ErrClosedPipe) }

// Whatever a value has in it, its JSON says the same and can be printed.
func TestPrintableJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.OneOf(rapid.String(), rapid.StringMatching("[\\x00-\\x20\\x7f-\\x9f\u202a-\u202e\U000e0001-\U000e007f\"\\\\é]*")).Draw(t, "in")
		var out bytes.Buffer
		enc := json.NewEncoder(PrintableJSON(&out))
		enc.SetEscapeHTML(false)
		require.NoError(t, enc.Encode(map[string]string{in: in}))
		for _, r := range out.String() {
			require.True(t, r == '\n' || unicode.IsPrint(r), "%q", r)
		}
		var got map[string]string
		require.NoError(t, json.Unmarshal(out.Bytes(), &got))
		require.Equal(t, map[string]string{in: in}, got)
	})
}
