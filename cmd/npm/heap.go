package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// heapGoal is what the heap of a command on a laptop may come to before it is collected: small
// clusters are not collected at all. An agent keeps to Go's own pace.
const heapGoal = 104 << 20

// growth returns the percentage by which a heap may grow: to heapGoal, or else by a quarter.
// Beyond 100 MB it is more, up to Go's own 100, as to mark much that lives takes long.
func growth(live uint64) int {
	const mb = 1 << 20
	return int(max((heapGoal-int64(live))*100/max(int64(live), mb), 25, min(int64(live)/(4*mb), 100)))
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
