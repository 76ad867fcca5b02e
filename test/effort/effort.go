// Package effort says how much of what it could do a test does. It is the one knob
// of every test that draws, disturbs, floods or measures: a change gets few of each
// (make test), make deep plays them all.
//
// The number of draws, orders and sizes follows the effort. What is asserted of each
// does not.
package effort

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"testing"
)

// Variable is the environment variable that has the level: empty or "quick", "deep"
// or "full".
const Variable = "WINNPM_EFFORT"

// Level is how much is played.
type Level string

// The levels. Full is what the scripts hack/torture.sh and hack/hostile.sh play: new
// random draws each time, for as long as somebody likes.
const (
	Quick Level = "quick"
	Deep  Level = "deep"
	Full  Level = "full"
)

// Now returns the level. It panics on a value that is none, as a misspelt level would
// pass for a deep run.
func Now() Level {
	level, err := parse(os.Getenv(Variable))
	if err != nil {
		panic(err)
	}
	return level
}

func parse(text string) (Level, error) {
	switch level := Level(text); level {
	case "":
		return Quick, nil
	case Quick, Deep, Full:
		return level, nil
	}
	return "", fmt.Errorf("%s=%q: write quick, deep or full", Variable, text)
}

// Of returns how many of something a test plays: quick ones for a change, else raced
// ones under the race detector, which takes five to ten times as long, and all others
// without it.
func Of(quick, raced, all int) int {
	switch {
	case Now() == Quick:
		return quick
	case Raced():
		return raced
	}
	return all
}

// All reports whether a test plays everything that it has.
func All() bool { return Of(0, 0, 1) > 0 }

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

// Checks has rapid check n draws, unless the command line says how many. The caller
// calls restore when they are done; rapid reads the number when a check begins.
func Checks(n int) (restore func()) { return Flag("rapid.checks", strconv.Itoa(n)) }

// Flag gives a flag of the test binary a value, unless the command line gave it one.
// It panics when there is no such flag.
func Flag(name, value string) (restore func()) {
	f := flag.Lookup(name)
	if f == nil {
		panic("BUG: no flag " + name)
	}
	was := f.Value.String()
	if was != f.DefValue {
		return func() {}
	}
	set := func(to string) {
		if err := f.Value.Set(to); err != nil {
			panic(fmt.Sprintf("BUG: -%s=%s: %v", name, to, err))
		}
	}
	set(value)
	return func() { set(was) }
}
