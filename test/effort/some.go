package effort

import (
	"flag"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// SeedVariable is the environment variable that has Some draw the same cases again.
const SeedVariable = "WINNPM_SEED"

// Some returns n of the cases of a table: each run draws others, and the log has the seed.
// Whoever asks for a case by its name, as -run TestX/name, gets the whole table.
func Some[C any](t testing.TB, n int, cases map[string]C) map[string]C {
	t.Helper()
	if n >= len(cases) || strings.Contains(flag.Lookup("test.run").Value.String(), "/") {
		return cases
	}
	seed, err := strconv.ParseInt(os.Getenv(SeedVariable), 10, 64)
	if err != nil {
		seed = time.Now().UnixNano()
	}
	t.Logf("%d of %d cases, %s=%d", n, len(cases), SeedVariable, seed)
	names := make([]string, 0, len(cases))
	for name := range cases {
		names = append(names, name)
	}
	slices.Sort(names)
	draw := rand.New(rand.NewPCG(uint64(seed), uint64(len(names))))
	draw.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	some := map[string]C{}
	for _, name := range names[:n] {
		some[name] = cases[name]
	}
	return some
}
