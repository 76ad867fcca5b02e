// Package effort scales the number of cases of expensive tests, and measures memory. make test runs few
// cases, make deep all of them. The assertions do not depend on it.
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

// Variable is the environment variable with the effort: empty, "deep" or "full".
const Variable = "WINNPM_EFFORT"

// Of returns the number of cases of a test: quick in a normal run, else deep.
func Of(quick, deep int) int {
	if Deep() {
		return deep
	}
	return quick
}

// Deep reports whether tests run all of their cases. It panics if Variable has an invalid value, as a
// misspelt one would mean a quick run.
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

// Raced reports whether the test is built with the race detector.
func Raced() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// Unraced skips a test under the race detector. It is for measurements that the race detector distorts, and
// for slow tests without concurrency.
func Unraced(t testing.TB) {
	t.Helper()
	if Raced() {
		t.Skip("the race detector takes several times the memory and the time: make deep plays this without it")
	}
}

// Checks sets the number of rapid's checks in this test to n, unless the command line sets it.
func Checks(t testing.TB, n int) {
	t.Helper()
	Flag(t, "rapid.checks", strconv.Itoa(n))
}

// Flag sets a flag of the test binary until the test ends, unless the command line sets it. It panics if
// the flag or the value is invalid.
func Flag(t testing.TB, name, value string) {
	t.Helper()
	f := flag.Lookup(name)
	if was := f.Value.String(); was == f.DefValue {
		utilruntime.Must(f.Value.Set(value))
		t.Cleanup(func() { utilruntime.Must(f.Value.Set(was)) })
	}
}

// Live collects garbage and returns the bytes of live objects on the heap.
func Live() int64 {
	runtime.GC()
	runtime.GC()                    // twice, as pools and finalizers keep objects for one cycle
	return int64(stats().HeapAlloc) //nolint:gosec // memory is smaller
}

// Allocated returns the bytes that were ever allocated on the heap.
func Allocated() uint64 { return stats().TotalAlloc }

func stats() (s runtime.MemStats) {
	runtime.ReadMemStats(&s)
	return s
}
