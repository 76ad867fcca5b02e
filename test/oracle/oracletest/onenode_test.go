package oracletest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/test/oracle/gen"
	"github.com/winnpm/winnpm/tool/whatif"
)

// TestPlanOfOneNode: where one node has all pods, its writes are those of the cluster that
// verdicts are read from. The plan is the one of a cluster that has another node too, without
// pods, where the writes of each node are played by themselves.
func TestPlanOfOneNode(t *testing.T) {
	written, tiers := 0, 0
	check(t, func(t *rapid.T) {
		g := gen.New(t)
		if rapid.Bool().Draw(t, "tiers") {
			g = gen.NewTiered(t)
		}
		before := ofAllNodes(t, g)
		after := before
		for range rapid.IntRange(1, 3).Draw(t, "changes") {
			after = g.Mutation(after).After
		}
		after.NodeAddrs = nil
		plan := func(nodes ...whatif.Node) whatif.Plan {
			change := changeOf(before, after)
			was, is := worldOf(before), worldOf(after)
			for _, w := range []*whatif.World{&was, &is} {
				w.Nodes = nodes
				for i := range w.Pods {
					w.Pods[i].Node = gen.Node
				}
			}
			for i := range before.ClusterPolicies {
				was.ClusterPolicies = append(was.ClusterPolicies, &before.ClusterPolicies[i])
			}
			for i := range after.ClusterPolicies {
				change.SetCluster = append(change.SetCluster, &after.ClusterPolicies[i])
			}
			tiers += len(change.SetCluster)
			change.After = &is
			p, err := whatif.New(t.Context(), was, change)
			require.NoError(t, err)
			return p
		}
		node := whatif.Node{Name: gen.Node}
		alone, beside := plan(node), plan(node, whatif.Node{Name: "spare"})
		written += len(alone.Nodes)
		require.Empty(t, cmp.Diff(beside, alone, cmpopts.IgnoreUnexported(whatif.Addresses{}), cmpopts.IgnoreFields(whatif.Plan{}, "NodesSeen")))
	})
	ever(t, written, "nothing was ever written")
	ever(t, tiers, "no tiers")
}
