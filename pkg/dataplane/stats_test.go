package dataplane_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/hnsfault"
)

const webFromAPI = `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}]}]}`

// The numbers are those of HNS: sets with the bytes of their values, rules that
// are really on endpoints.
func TestStats(t *testing.T) {
	w := dWorld(t)
	require.Empty(t, w.dp.Stats().Sets)
	w.do("node 10.1.0.4", "policy x/p "+webFromAPI, "apply")
	got := w.dp.Stats()

	want := state.Stats{
		Policies: 1, ClusterPolicies: map[policy.Tier]int{}, Pods: 7, ACLs: 9, // node, block and rule on three endpoints
		DriftFound: map[string]uint64{"set": 0, "acl": 0}, DriftRepaired: map[string]uint64{"set": 0, "acl": 0},
		Damped: map[string]int{"set": 0, "acl": 0},
	}
	for _, p := range w.sim.Sets() {
		want.Sets = append(want.Sets, state.SetStats{ID: p.ID, Name: p.Name, Nested: p.Type == hns.NestedIPSet, Entries: len(p.Values)})
	}
	require.Len(t, want.Sets, 2)
	require.Empty(t, cmp.Diff(want, got))
}

// pinned counts the sets that a pending update may need.
func pinned(d state.Dump) (n int) {
	for _, s := range d.Sets {
		if len(s.Pins) > 0 {
			n++
		}
	}
	return n
}

// While an endpoint cannot be written its update is pending, for as long as it
// has been, and its sets are pinned; what came later is not held up by it.
func TestStatsOfAFailure(t *testing.T) {
	w := dWorld(t)
	w.sim.Inject(hnsfault.Fault{Op: "ACL/Add", Target: "ep-2", Times: -1})
	w.do("policy x/p "+webFromAPI, "! apply")
	failed := w.report
	require.Equal(t, failed.Generation, failed.Unprogrammed)
	w.now = w.now.Add(7 * time.Second)
	stats := w.dp.Stats()
	require.Equal(t, 1, stats.Pending)
	require.Equal(t, 7*time.Second, stats.OldestPending)
	require.Equal(t, 2, pinned(w.dp.Dump()))

	w.do("pod x/w4 10.0.0.44 app=web", "! apply")
	require.Equal(t, failed.Generation, w.report.Unprogrammed, "a pod without an endpoint is nothing to program")
	w.now = w.now.Add(3 * time.Second)
	stats = w.dp.Stats()
	require.Equal(t, 2, stats.Pending)
	require.Equal(t, 10*time.Second, stats.OldestPending, "since the first failure, not the last")
}

func TestChanges(t *testing.T) {
	p := "policy x/p " + webFromAPI
	w := newWorld(t)
	change := func(kind, operation string, n int) state.Change {
		return state.Change{Kind: kind, Operation: operation, Count: n}
	}
	w.do("endpoint ep-1 10.0.0.1", "node 10.1.0.4", "namespace x team=x", "pod x/a 10.0.0.1 app=web", "pod x/b 10.0.0.2 remote", p, "apply")
	require.Equal(t, []state.Change{
		change("namespace", "create", 1), change("node", "create", 1), change("pod", "create", 2), change("policy", "create", 1),
	}, w.report.Changes)
	require.Equal(t, []state.EndpointSeen{{ID: "ep-1", Addr: "10.0.0.1"}}, w.report.NewEndpoints)

	w.do("node 10.1.0.5", "namespace x team=y", "pod x/a 10.0.0.1 app=api", "delete pod x/b", p, "apply")
	require.Equal(t, []state.Change{
		change("namespace", "update", 1), change("node", "update", 1), change("pod", "delete", 1), change("pod", "update", 1), change("policy", "update", 1),
	}, w.report.Changes)
	require.Empty(t, w.report.NewEndpoints, "told once")

	w.do("node 10.1.0.5", "namespace x team=y", "delete pod x/none", "delete namespace none", "apply")
	require.Empty(t, w.report.Changes, "nothing changed")
}
