package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// What a command on a laptop leaves to the collector. Whatever lives, its heap may come to
// heapGoal before it is collected, so that small clusters are not; and it may always grow by
// leastGrowth percent, so that large ones are not collected all the time. An agent keeps to
// Go's own pace: others run on its node.
const (
	heapGoal    = 104 << 20
	leastGrowth = 25
)

// growth returns the percentage by which a heap may grow.
func growth(live uint64) int {
	if live == 0 {
		return 100 // nothing was collected yet
	}
	if live >= heapGoal {
		return leastGrowth
	}
	return max(int((heapGoal-live)*100/live), leastGrowth)
}

// paceHeap sets the pace of the collector after every collection until stop is called. The
// environment variable GOGC wins.
func paceHeap() (stop func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	var mu sync.Mutex
	stopped := false
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	var after func(struct{})
	next := func() {
		// It dies with the collection that follows.
		runtime.AddCleanup(new([2]uintptr), after, struct{}{})
	}
	after = func(struct{}) {
		mu.Lock()
		defer mu.Unlock()
		if stopped {
			return
		}
		metrics.Read(live)
		debug.SetGCPercent(growth(live[0].Value.Uint64()))
		next()
	}
	before := debug.SetGCPercent(growth(4 << 20))
	next()
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		debug.SetGCPercent(before)
	}
}
