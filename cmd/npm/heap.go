package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
)

// heapGoal is what the heap of a command on a laptop may come to before it is collected: small
// clusters are not collected at all. An agent keeps to Go's own pace.
const heapGoal = 104 << 20

// growth returns the percentage by which a heap may grow: to heapGoal, or else by a quarter.
// Beyond 100 MB it is more, up to Go's own 100, as to mark much that lives takes long.
func growth(live uint64) int {
	const mb = 1 << 20
	l := max(int64(live), 4*mb) // the runtime takes the percentage of 4 MB at least
	return int(max((heapGoal-l)*100/l, 25, min(l/(4*mb), 100)))
}

// pacesHeap reports whether the command that is asked for has a heap of its own pace: one that
// plays a whole cluster, and nobody gave it a pace in GOGC.
func pacesHeap(args []string, getenv func(string) string) bool {
	return getenv("GOGC") == "" && len(args) > 0 && slices.Contains([]string{"simulate", "trace", "plan"}, args[0])
}

// paceHeap tells set by how many percent the heap may grow, and again after every collection
// until the process ends. The pace is the whole process's, so it is for main alone.
func paceHeap(set func(percent int)) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	set(growth(live[0].Value.Uint64()))
	// This value dies with the next collection, which runs its cleanup. A smaller one would share
	// its memory with others, and live as long as they do.
	runtime.AddCleanup(new([2]uintptr), paceHeap, set)
}

// setPace is what main hands to paceHeap.
func setPace(percent int) { debug.SetGCPercent(percent) }
