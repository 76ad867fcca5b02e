package effort

import (
	"flag"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// SeedVariable is the environment variable that has a test draw the same again.
const SeedVariable = "WINNPM_SEED"

// Seed returns the seed that the variable has, else a new one, and logs it. A test fails where
// the variable has something else, as it would draw what nobody asked for.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv(SeedVariable); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", SeedVariable, err)
		}
	}
	t.Logf("%s=%d", SeedVariable, seed)
	return seed
}

// Some returns n of the cases of a table: each run draws others, and the log has the seed.
// Whoever asks for a case by its name, as -run TestX/name, gets the whole table.
func Some[C any](t testing.TB, n int, cases map[string]C) map[string]C {
	t.Helper()
	if n >= len(cases) || strings.Contains(flag.Lookup("test.run").Value.String(), "/") {
		return cases
	}
	t.Logf("%d of %d cases", n, len(cases))
	seed := Seed(t)
	names, some := slices.Sorted(maps.Keys(cases)), map[string]C{}
	for _, i := range rand.New(rand.NewPCG(seed, 0)).Perm(len(names))[:n] {
		some[names[i]] = cases[names[i]]
	}
	return some
}
