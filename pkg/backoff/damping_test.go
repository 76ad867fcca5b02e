package backoff

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The pause after a strike doubles from the third on, to ten minutes, and comes
// up to a fifth early, so that many objects do not come back together.
func TestPauseAfterFlaps(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	seen := map[time.Duration]bool{}
	for i := range 50 {
		var s Damping
		for n, want := range []time.Duration{0, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600, 600} {
			want *= time.Second
			s.Flap(start, fmt.Sprint("ep-", i))
			pause := s.Until.Sub(start)
			require.LessOrEqual(t, pause, want, "strike %d", n+1)
			require.GreaterOrEqual(t, pause, want*4/5, "strike %d", n+1)
			require.Equal(t, want > 0, s.Damped(start))
			seen[pause] = true
		}
		for range 100 {
			s.Flap(start, "x")
		}
		require.Greater(t, s.Until.Sub(start), LongestDamped*4/5-1, "nor does it run over")
		require.True(t, s.Damped(start.Add(amnesty-1)))
		require.False(t, s.Damped(start.Add(amnesty)))
		s.Flap(start.Add(amnesty), "x")
		require.Equal(t, 1, s.N)
	}
	require.Greater(t, len(seen), 300)
}
