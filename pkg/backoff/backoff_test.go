package backoff

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Endpoints that failed together come back one after the other, and the same
// ones at the same times in every run.
func TestSpread(t *testing.T) {
	const endpoints = 110
	for tries, want := range map[int]time.Duration{1: 1, 2: 2, 3: 4, 4: 8, 5: 16, 6: 30, 100: 30} {
		want *= time.Second
		seen := map[time.Duration]int{} // by tenth of the range
		for i := range endpoints {
			id := fmt.Sprintf("0e2f9c1a-77aa-4c1f-9d51-%012d", i)
			pause := Spread(id, tries)
			require.Equal(t, pause, Spread(id, tries))
			require.LessOrEqual(t, pause, want)
			require.Greater(t, pause, want*4/5-1)
			seen[(want-pause)/(want/50)]++
		}
		if tries < 3 {
			require.Equal(t, map[time.Duration]int{0: endpoints}, seen)
			continue
		}
		require.GreaterOrEqual(t, len(seen), 9, "%d tries: %v", tries, seen)
		for tenth, n := range seen {
			require.Less(t, n, endpoints/4, "%d tries: tenth %d: %v", tries, tenth, seen)
		}
	}
	require.NotEqual(t, Spread("a", 6), Spread("a", 7), "nor do two meet at every try")
}
