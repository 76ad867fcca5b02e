package explain_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/explain"
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

// FuzzExplain: whatever a dump says, there is an answer or an error, and a page
// of printable lines that begins with the verdict.
func FuzzExplain(f *testing.F) {
	d, _ := snapshot(f)
	d.Reports = nil
	seed, err := json.Marshal(struct {
		NodeName string
		dataplane.Dump
	}{"n1", d})
	require.NoError(f, err)
	for _, question := range []string{"x/web->z/db:5432/TCP", "node->z/cache-0:53/UDP", "x/host->10.0.0.2:1/SCTP"} {
		f.Add(seed, question)
	}
	f.Fuzz(func(t *testing.T, dump []byte, question string) {
		d, err := debug.ReadManager(bytes.NewReader(dump))
		if err != nil {
			return
		}
		q, err := explain.Parse(question)
		if err != nil {
			return
		}
		a, err := explain.Explain(d, q, nil)
		if err != nil {
			require.ErrorIs(t, err, explain.ErrNoEnd)
			return
		}
		var b strings.Builder
		require.NoError(t, a.WriteText(&b))
		require.True(t, strings.HasPrefix(b.String(), strings.ToUpper(string(a.Verdict))+"  "))
		for line := range strings.Lines(b.String()) {
			require.NotContains(t, strings.TrimSuffix(line, "\n"), "\n")
			require.False(t, strings.ContainsFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool { return !unicode.IsPrint(r) && r != '\uFFFD' }), line)
		}
		_, err = json.Marshal(a)
		require.NoError(t, err)
	})
}
