package oracletest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/test/oracle/gen"
	"github.com/winnpm/winnpm/tool/hnssim"
	"github.com/winnpm/winnpm/tool/whatif"
)

// TestPlanOfObjects: of a random change of pods, namespaces and policies, a plan has the
// connections that flip by the oracle, and counts those of pods that stay, are new and are
// deleted as a count by its verdicts does.
func TestPlanOfObjects(t *testing.T) {
	seen := map[string]int{}
	check(t, func(t *rapid.T) {
		g := gen.New(t)
		w := newWorld(t, setup{foreign: hnssim.DefaultForeign(), shared: true})
		before := ofAllNodes(t, g)
		after := before
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			m := g.Mutation(after)
			after = m.After
			after.NodeAddrs = nil
			seen[m.Kind]++
		}
		plan, err := whatif.New(w.t.Context(), worldOf(before), changeOf(worldOf(after), before, after))
		require.NoError(w.t, err)
		x := planned{w: w, before: before, after: after, plan: plan, all: slices.Concat(plan.Flips, plan.Outside), seen: seen}
		if contested(before) || contested(after) {
			return // who has an address of several depends on the node, and a plan is of all
		}
		x.flips(slices.Concat(g.Probes(before, 2), g.Probes(after, 2), x.edges(t)))
		x.numbers()
		x.headline()

		// The agent of one node writes what was planned for it.
		w.start(before, true)
		old := w.state()
		w.plug(after, true)
		list := events(before, after, false)
		w.settle(w.tell(list, max(len(list), 1)))
		x.written(old, w.state())
	})
	for _, what := range []string{
		"pod created", "pod deleted", "pod relabelled", "namespace relabelled", "blocked", "allowed", "opened inside", "blocked inside",
		"opened outside", "blocked outside", "new pods", "new pods outside", "new pods by policy", "new pods freely", "deleted pods",
	} {
		ever(t, seen[what], "never seen: "+what)
	}
}
