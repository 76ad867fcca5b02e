package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPrintable(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"plain":           {"x/web … é +1", "x/web … é +1"},
		"escape sequence": {"\x1b[31mred", "\uFFFD[31mred"},
		"line breaks":     {"a\r\nb\u2028c", "a\uFFFD\uFFFDb\uFFFDc"},
		"tab":             {"a\tb", "a\uFFFDb"},
		"C1 and bidi":     {"\u009b1m\u202e", "\uFFFD1m\uFFFD"},
		"not UTF-8":       {"a\xffb", "a\uFFFDb"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, Printable(tc.in)) })
	}
}

func TestPage(t *testing.T) {
	var p Page
	require.Empty(t, p.String())
	p.Line(0, "head %d", 1)
	p.Line(2, "%s  ", "a\nb")
	p.Line(0, "")
	require.Equal(t, "head 1\n    a\uFFFDb\n\n", p.String())
}
