package main

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGrowth(t *testing.T) {
	for live, want := range map[uint64]int{
		0: 100, heapGoal / 10: 900, heapGoal / 2: 100, heapGoal * 4 / 5: leastGrowth, heapGoal - 1: leastGrowth, heapGoal: leastGrowth, 10 * heapGoal: leastGrowth,
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
