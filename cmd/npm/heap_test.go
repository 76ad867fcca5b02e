package main

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGrowth(t *testing.T) {
	const mb = 1 << 20
	for live, want := range map[uint64]int{
		0: 10_400, 10 * mb: 940, 52 * mb: 100, 90 * mb: 25, 100 * mb: 25, 104 * mb: 26, 200 * mb: 50, 400 * mb: 100, 4000 * mb: 100,
	} {
		require.InDelta(t, want, growth(live), 1, "%d bytes live", live)
	}
}

// TestPaceHeap: a command gives back the pace that it found, and leaves that of GOGC.
func TestPaceHeap(t *testing.T) {
	const ours = 123
	defer debug.SetGCPercent(debug.SetGCPercent(ours))
	t.Setenv("GOGC", "")
	stop := paceHeap()
	require.NotEqual(t, ours, debug.SetGCPercent(ours), "it has a pace of its own")
	stop()
	require.Equal(t, ours, debug.SetGCPercent(ours))

	t.Setenv("GOGC", "100")
	stop = paceHeap()
	require.Equal(t, ours, debug.SetGCPercent(ours))
	stop()
	require.Equal(t, ours, debug.SetGCPercent(ours))
}
