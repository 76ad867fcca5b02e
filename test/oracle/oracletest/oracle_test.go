package oracletest

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/test/effort"
	"github.com/winnpm/winnpm/test/oracle"
	"github.com/winnpm/winnpm/test/oracle/gen"
)

// TestOracle checks that HNS does with every packet what the oracle says, by the same policy,
// however the dataplane came to know of the cluster. Clusters with tiers have ClusterNetworkPolicies:
// both tiers, every action, equal priorities, nodes, networks, names of ports, and objects that are
// not known. The command line's -rapid.checks replaces the numbers.
func TestOracle(t *testing.T) {
	seen := map[string]int{}
	for _, p := range []struct {
		name            string
		quick, clusters int
		tiers           bool
		prop            property
	}{
		{"Whole", 6, 1500, false, whole},
		{"Pieces", 4, 1000, false, pieces},
		{"History", 3, 600, false, history},
		{"TiersWhole", 3, 1500, true, whole},
		{"TiersPieces", 2, 1000, true, pieces},
		{"TiersHistory", 2, 600, true, history},
	} {
		t.Run(p.name, func(t *testing.T) {
			effort.Checks(t, effort.Of(p.quick, p.clusters))
			rapid.Check(t, func(t *rapid.T) {
				w := newWorld(t, drawSetup(t))
				defer func() {
					for what, n := range w.tiers {
						seen[fmt.Sprintf("%s, tiers %t", what, p.tiers)] += n
					}
				}()
				p.prop(gen.New(t, p.tiers), w, t)
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
		ever(t, seen[what+", tiers true"], "never "+what)
	}
}

// property brings what a generator draws into a world, and holds it against the oracle.
type property func(*gen.Gen, *world, *rapid.T)

// check is rapid.Check, of less for a change.
func check(t *testing.T, prop func(*rapid.T)) {
	effort.Checks(t, effort.Of(1, 100))
	rapid.Check(t, prop)
}

// ever wants what a property saw to be more than nothing, unless it did less.
func ever(t *testing.T, seen int, never string) {
	t.Helper()
	if effort.Deep() {
		require.Positive(t, seen, never)
	}
}

// whole brings a cluster in with one transaction.
func whole(g *gen.Gen, w *world, t *rapid.T) {
	c := g.Cluster()
	w.start(c, false)
	w.check(c, g)
}

// pieces brings a cluster in object by object in any order, in transactions of
// any size; endpoints come before, between or after them.
func pieces(g *gen.Gen, w *world, t *rapid.T) {
	c := g.Cluster()
	list := shuffled(t, events(oracle.Cluster{}, c, true))
	before := rapid.IntRange(0, len(list)).Draw(t, "events before the endpoints")
	size := rapid.IntRange(1, 4).Draw(t, "transaction size")
	w.tell(list[:before], size)
	w.plug(c, false)
	w.tell(list[before:], size)
	w.settle(w.apply(dataplane.NewTransaction()))
	w.check(c, g)
	w.sameAsFresh(c)
}

// history lets a cluster change for a while.
func history(g *gen.Gen, w *world, t *rapid.T) {
	c := g.Cluster()
	w.start(c, false)
	g.Some(6, "transaction", func() {
		before := c
		g.Some(4, "change", func() {
			var kind string
			c, kind = g.Mutation(c, false)
			w.note("event: %s", kind)
		})
		c.Lost = w.lose(before, c)
		w.change(before, c, g.Flip("endpoints change later"), g.Flip("tell all"))
		c.Lost = w.lose(c, c) // to look for endpoints that change later takes minutes
		w.compare(c, g.Probes(2))
	})
	w.check(c, g)
	c.Lost = w.lose(c, c) // none
	w.sameAsFresh(c)
}

func shuffled(t *rapid.T, list []event) []event {
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	var all []event
	for _, i := range rapid.Permutation(order).Draw(t, "order") {
		all = append(all, list[i])
	}
	return all
}
