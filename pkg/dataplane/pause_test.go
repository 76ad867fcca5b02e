package dataplane

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/ipsets"
)

// The pause after a strike doubles from the third on, to ten minutes, and comes
// up to a fifth early, so that many objects do not come back together.
func TestPauseAfterFlaps(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	seen := map[time.Duration]bool{}
	for i := range 50 {
		var s flapDamping
		for n, want := range []time.Duration{0, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600, 600} {
			want *= time.Second
			s.flap(start, fmt.Sprint("ep-", i))
			pause := s.until.Sub(start)
			require.LessOrEqual(t, pause, want, "strike %d", n+1)
			require.GreaterOrEqual(t, pause, want*4/5, "strike %d", n+1)
			require.Equal(t, want > 0, s.damped(start))
			seen[pause] = true
		}
		for range 100 {
			s.flap(start, "x")
		}
		require.Greater(t, s.until.Sub(start), maxPause*4/5-1, "nor does it run over")
		require.True(t, s.damped(start.Add(amnesty-1)))
		require.False(t, s.damped(start.Add(amnesty)))
		s.flap(start.Add(amnesty), "x")
		require.Equal(t, 1, s.n)
	}
	require.Greater(t, len(seen), 300)
}

func TestSetInWords(t *testing.T) {
	for want, d := range map[string]ipsets.Drift{
		"gone":                       {Gone: true, Needed: true},
		"made by somebody else":      {Appeared: true, Added: 3},
		"of another type":            {Retyped: true, Missing: 2},
		"1 member missing":           {Missing: 1},
		"2 members missing":          {Missing: 2},
		"1 member added":             {Added: 1},
		"2 members missing, 1 added": {Missing: 2, Added: 1},
		"1 member missing, 12 added": {Missing: 1, Added: 12},
		"3 members missing, 3 added": {Missing: 3, Added: 3},
		"11 members added":           {Added: 11},
	} {
		require.Equal(t, want, setInWords(d))
	}
	require.Equal(t, "3 rules missing, 1 unknown", inWords("rule", 3, 1, "unknown"))
}
