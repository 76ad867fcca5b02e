package debug_test

import (
	"bytes"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/bounded"
)

func TestReadDump(t *testing.T) {
	want := debug.Sample()
	var b bytes.Buffer
	require.NoError(t, debug.WriteManager(&b, want))
	got, err := bounded.ReadDump(&b)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{})))
}

func TestReadDumpRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"nothing":              {"", "EOF"},
		"text":                 {"404 page not found", "cannot unmarshal number"},
		"another type":         {`{"NodeName":"n","pods":{}}`, "cannot unmarshal object"},
		"kubectl npm simulate": {`{"sets":[],"endpoints":[],"verdicts":[],"calls":{},"warnings":[]}`, "it has no NodeName"},
		"no time":              {`{"NodeName":"n","sets":[]}`, "it has no time"},
		"two dumps":            {`{"NodeName":"n","time":"2026-01-02T03:04:05Z"} {}`, "something behind it"},
		"half a dump":          {`{"NodeName":"n","time":"2026-01-02T03:04:05Z","pods":[`, "unexpected EOF"},
		"garbage at the tail":  {`{"NodeName":"n","time":"2026-01-02T03:04:05Z"}}`, "something behind it"},
	} {
		_, err := bounded.ReadDump(strings.NewReader(tc.text))
		require.ErrorIs(t, err, bounded.ErrNoDump, name)
		require.ErrorContains(t, err, tc.want, name)
	}
}

// FuzzReadDump: whatever comes back from a node is refused, or is a dump that
// is written and read the same way again.
func FuzzReadDump(f *testing.F) {
	var b bytes.Buffer
	require.NoError(f, debug.WriteManager(&b, debug.Sample()))
	f.Add(b.Bytes())
	f.Add([]byte(`{"NodeName":"n","time":"2026-01-02T03:04:05Z","sets":[{}],"endpoints":[null]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := bounded.ReadDump(bytes.NewReader(data))
		if err != nil {
			require.True(t, errors.Is(err, bounded.ErrNoDump))
			require.Equal(t, state.Dump{}, d)
			return
		}
		write := func(d state.Dump) string {
			var out bytes.Buffer
			if err := debug.WriteManager(&out, d); err != nil {
				t.Skip("a year that RFC 3339 cannot write") // the only value that does not encode
			}
			return out.String()
		}
		once := write(d)
		again, err := bounded.ReadDump(strings.NewReader(once))
		require.NoError(t, err)
		require.Equal(t, once, write(again))
	})
}
