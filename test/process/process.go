// Package process says what memory the process of a test has used.
package process

import "runtime"

// Live returns the bytes of objects on the heap that something still needs. It runs the
// garbage collector.
func Live() int64 {
	runtime.GC()
	runtime.GC()                    // for what pools and finalizers kept in the first one
	return int64(stats().HeapAlloc) //nolint:gosec // memory is smaller
}

// Allocated returns the bytes that were ever allocated on the heap.
func Allocated() uint64 { return stats().TotalAlloc }

func stats() (s runtime.MemStats) {
	runtime.ReadMemStats(&s)
	return s
}
