// Package effort scales how many cases a test runs, and measures their memory. Every test that draws,
// disturbs, floods or measures uses it: make test runs few cases, make deep all of them. The assertions
// do not depend on it.
package effort

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"testing"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// Variable is the environment variable that has the effort: empty, "deep" or "full".
const Variable = "WINNPM_EFFORT"

// Of returns how many of something a test plays: quick ones for a change, else deep ones.
func Of(quick, deep int) int {
	if Deep() {
		return deep
	}
	return quick
}

// Deep reports whether tests play everything that they have. It panics on a value that
// Variable cannot have, as a misspelt one would pass for a quick run.
func Deep() bool {
	text := os.Getenv(Variable)
	if !slices.Contains([]string{"", "deep", "full"}, text) {
		panic(fmt.Errorf("%s=%q: write deep or full, or nothing", Variable, text))
	}
	return text != ""
}

// Full reports whether hack/torture.sh or hack/hostile.sh run: they run more cases than Deep,
// without a time limit.
func Full() bool { return os.Getenv(Variable) == "full" }

// Some returns the first n cases of a table by name.
func Some[C any](n int, cases map[string]C) map[string]C {
	some := map[string]C{}
	for _, name := range slices.Sorted(maps.Keys(cases))[:min(n, len(cases))] {
		some[name] = cases[name]
	}
	return some
}

// Raced reports whether this is built with the race detector.
func Raced() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// Unraced skips a test that measures what the race detector multiplies. It is for what
// has nothing to race and takes minutes with it.
func Unraced(t testing.TB) {
	t.Helper()
	if Raced() {
		t.Skip("the race detector takes several times the memory and the time: make deep plays this without it")
	}
}

// Checks has rapid check n draws in this test, unless the command line says how many.
func Checks(t testing.TB, n int) {
	t.Helper()
	Flag(t, "rapid.checks", strconv.Itoa(n))
}

// Flag gives a flag of the test binary a value until the test ends, unless the command line
// gave it one. It panics when there is no such flag or value.
func Flag(t testing.TB, name, value string) {
	t.Helper()
	f := flag.Lookup(name)
	if was := f.Value.String(); was == f.DefValue {
		utilruntime.Must(f.Value.Set(value))
		t.Cleanup(func() { utilruntime.Must(f.Value.Set(was)) })
	}
}

// Live collects garbage and returns the bytes of objects on the heap that are still needed.
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
