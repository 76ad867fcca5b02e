package dataplane_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// clear is somebody else who takes all our rules from an endpoint.
func (w *world) clear(id string) {
	w.t.Helper()
	require.NoError(w.t, w.sim.SetPolicies(id, hnssim.DefaultForeign()))
}

// requireAgreement checks that the counters are those of the repairs so far.
func (w *world) requireAgreement(all []state.Repair) {
	w.t.Helper()
	want := map[string]uint64{"set": 0, "acl": 0}
	for _, r := range all {
		want[r.Kind]++
	}
	require.Equal(w.t, want, w.dp.Stats().DriftRepaired)
}

// TestScenario_B6_RepairIsBounded: HNS loses the rules of every endpoint of a
// node. A round writes a part of them only, so that an event that comes in the
// middle does not wait for all, and goes first.
func TestScenario_B6_RepairIsBounded(t *testing.T) {
	const endpoints, bound = 110, 32
	w := newWorld(t)
	w.do("namespace x", `policy x/all {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}]}]}`)
	last := fmt.Sprintf("ep-%03d", endpoints-1)
	for i := range endpoints {
		w.do(fmt.Sprintf("endpoint ep-%03d 10.0.1.%d", i, i+1))
		label := map[bool]string{true: "odd=very"}[i == endpoints-1]
		w.do(fmt.Sprintf("pod x/w%03d 10.0.1.%d %s", i, i+1, label))
	}
	w.do("apply")
	require.True(t, w.report.Converged(), "events are not bounded")
	w.sim.Restart()
	lost := len(w.dp.Stats().Sets)

	var all []state.Repair
	for round, want := range []int{bound, 1 + bound, bound, endpoints - 3*bound - 1} {
		if round == 0 {
			w.do("observe")
		}
		if round == 1 { // its endpoint is the last of those that wait
			w.do(`policy x/odd {podSelector: {matchLabels: {odd: very}}, ingress: [{ports: [{port: 443}]}]}`)
		}
		w.do("apply")
		written := writtenEndpoints(w.sim)
		require.Len(t, written, want, "round %d", round)
		if round == 1 {
			require.Equal(t, last, written[0], "the event goes first")
			w.do("trace 10.0.0.9 -> 10.0.1.110 TCP/443 "+last+" in allow", "trace 10.0.0.9 -> 10.0.1.110 TCP/80 "+last+" in block")
		}
		if round < 3 {
			require.Equal(t, time.Millisecond, w.report.RetryAfter, "the rest is due at once")
		}
		all = append(all, w.report.Repairs...)
	}
	require.True(t, w.report.Converged())
	require.Len(t, all, endpoints+lost)
	require.Equal(t, map[string]uint64{"set": uint64(lost), "acl": endpoints}, w.dp.Stats().DriftFound)
	w.requireAgreement(all)
	w.do("observe", "apply", "calls")
}

// writtenEndpoints returns the endpoints written since the last apply began, in
// order, each once.
func writtenEndpoints(sim *hnsfault.Sim) []string {
	var out []string
	for _, c := range sim.Calls() {
		if c.Op == hns.OpACLAdd || c.Op == hns.OpACLUpdate {
			out = append(out, c.Target)
		}
	}
	return slices.Compact(out)
}

// takes lets every write last so long.
func (w *world) takes(d time.Duration) {
	w.sim.OnCall(func(c hnsfault.Call, when hnsfault.When) {
		if isWrite(c.Op) && when == hnsfault.Before {
			w.now = w.now.Add(d)
		}
	})
}

// TestRepairsThatFailGoBehind: the first two repairs of a round of two fail, which
// takes longer than their pause. The others have their turn all the same.
func TestRepairsThatFailGoBehind(t *testing.T) {
	w := dWorld(t)
	w.do("restart repairs=2")
	dObjects(w)
	w.do("policy x/p "+webFromAPI, "apply")
	for _, ep := range []string{"ep-1", "ep-2", "ep-3"} { // with their block: what is open goes first in any case
		w.do("drop-acl " + ep + " azure-acl-x.p")
	}
	w.takes(40 * time.Second)
	for _, ep := range []string{"ep-1", "ep-2"} {
		w.sim.Inject(hnsfault.Fault{Op: hns.OpACLAdd, Target: ep, Times: -1})
	}
	w.do("observe", "! apply")
	require.Equal(t, []string{"ep-1", "ep-2"}, writtenEndpoints(w.sim))
	_ = w.apply()
	require.Equal(t, "ep-3", writtenEndpoints(w.sim)[0])
	require.Equal(t, 2, w.report.Pending)
}

// TestPauseAfterSlowFailures: the pause begins when a write has failed. From the
// start of its round it would be over by then, and HNS never had one.
func TestPauseAfterSlowFailures(t *testing.T) {
	for op, target := range map[string]string{hns.OpACLAdd: "ep-1", "SetPolicy/Add": "podlabel-app:api"} {
		t.Run(op, func(t *testing.T) {
			w := dWorld(t)
			w.do("delete pod x/w2", "delete pod x/w3", "apply", "policy x/p "+webFromAPI)
			w.takes(40 * time.Second)
			w.sim.Inject(hnsfault.Fault{Op: op, Target: target, Times: -1})
			for _, pause := range []time.Duration{1, 2, 4} {
				_ = w.apply()
				require.InDelta(t, pause*time.Second, w.report.RetryAfter, float64(pause*time.Second/5))
				w.now = w.now.Add(w.report.RetryAfter)
			}
		})
	}
}

// An endpoint is repaired when all of it is, not when the first of two requests
// got through; what is found meanwhile is part of the same trouble.
func TestRepairIsSaidWhenItIsDone(t *testing.T) {
	w := dWorld(t)
	w.do("restart batch=1")
	dObjects(w)
	w.do("policy x/p "+webFromAPI, `policy x/q {podSelector: {}, ingress: [{ports: [{port: 443}]}]}`, "apply")
	w.clear("ep-1")
	w.sim.Inject(hnsfault.Fault{Op: hns.OpACLUpdate, Target: "ep-1", Nth: 1})
	w.do("observe", "! apply")
	require.Equal(t, 1, w.sim.Counts()[hns.OpACLAdd], "the block")
	require.Empty(t, w.report.Repairs)
	require.Empty(t, w.dp.Stats().DriftRepaired["acl"])
	w.settle()
	want := []state.Repair{{Kind: "acl", Object: "ep-1", Pod: "x/w1", Found: "3 rules missing"}}
	require.Equal(t, want, w.report.Repairs)
	w.requireAgreement(want)
	require.Equal(t, map[string]uint64{"set": 0, "acl": 1}, w.dp.Stats().DriftFound)
}
