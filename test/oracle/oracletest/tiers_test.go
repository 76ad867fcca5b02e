package oracletest

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/test/effort"
	"github.com/winnpm/winnpm/test/oracle/gen"
)

// TestOracleTiers is TestOracle of clusters with ClusterNetworkPolicies: both tiers,
// every action, equal priorities, nodes, networks, names of ports, and objects that are
// not known.
func TestOracleTiers(t *testing.T) {
	seen := map[string]int{}
	for _, p := range []struct {
		name            string
		quick, clusters int
		prop            property
	}{{"Whole", 3, 1500, whole}, {"Pieces", 2, 1000, pieces}, {"History", 2, 600, history}} {
		t.Run(p.name, func(t *testing.T) {
			effort.Checks(t, effort.Of(p.quick, p.clusters))
			rapid.Check(t, func(t *rapid.T) {
				w := newWorld(t, drawSetup(t))
				defer func() {
					for what, n := range w.tiers {
						seen[what] += n
					}
				}()
				p.prop(gen.New(t, true), w, t)
			})
		})
	}
	for _, what := range slices.Sorted(maps.Keys(seen)) {
		t.Logf("%8d %s", seen[what], what)
	}
	for _, what := range []string{
		"allowed by Admin", "denied by Admin", "allowed by Baseline", "denied by Baseline", "allowed by another",
		"denied by another", "passed, then allowed", "passed, then denied",
	} {
		ever(t, seen[what], "never "+what)
	}
}
