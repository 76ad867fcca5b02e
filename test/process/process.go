// Package process says what memory the process of a test has used.
package process

import (
	"runtime"
	"runtime/metrics"
)

// Live returns the bytes of objects on the heap that something still needs. It runs the
// garbage collector.
func Live() int64 {
	runtime.GC()
	runtime.GC()                                             // for what pools and finalizers kept in the first one
	return int64(read("/memory/classes/heap/objects:bytes")) //nolint:gosec // memory is smaller
}

// Allocated returns the bytes that were ever allocated on the heap.
func Allocated() uint64 { return read("/gc/heap/allocs:bytes") }

func read(name string) uint64 {
	samples := []metrics.Sample{{Name: name}}
	metrics.Read(samples)
	return samples[0].Value.Uint64()
}
