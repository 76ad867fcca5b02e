package main

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGrowth(t *testing.T) {
	const mb = 1 << 20
	for live, want := range map[uint64]int{
		0: 2500, 10 * mb: 940, 52 * mb: 100, 90 * mb: 25, 100 * mb: 25, 104 * mb: 26, 200 * mb: 50, 400 * mb: 100, 4000 * mb: 100,
	} {
		require.InDelta(t, want, growth(live), 1, "%d bytes live", live)
	}
}

// TestPacesHeap: what plays a cluster has a pace of its own, an agent never.
func TestPacesHeap(t *testing.T) {
	nothing := func(string) string { return "" }
	for line, want := range map[string]bool{
		"": false, "start": false, "start simulate": false, "check plan": false, "simulate --once": true, "trace a b": true, "plan -f x": true,
	} {
		require.Equal(t, want, pacesHeap(strings.Fields(line), nothing), line)
	}
	require.False(t, pacesHeap([]string{"plan"}, func(name string) string { return map[string]string{"GOGC": "100"}[name] }), "GOGC wins")
}

// TestPaceHeap: the pace is set at once, and again after each collection.
func TestPaceHeap(t *testing.T) {
	paces := make(chan int, 1)
	paceHeap(func(percent int) {
		select {
		case paces <- percent:
		default: // nobody asks any more
		}
	})
	for range 3 {
		require.Positive(t, <-paces)
		runtime.GC()
	}
}
