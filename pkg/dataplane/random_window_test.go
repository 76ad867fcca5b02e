package dataplane_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// TestRandomNoWindow: after every single write the verdict of every packet is
// one that some of the transaction's objects give, each whole.
func TestRandomNoWindow(t *testing.T) {
	rounds(t, func(t *testing.T, rt *rapid.T, first *string) {
		w := newWalker(rt, t.Context(), dataplane.Config{MaxBatchedACLs: 30}, walkSim(), newCluster())
		w.first = first
		w.hasty = rapid.Bool().Draw(rt, "hasty")
		w.cluster.faithful = true
		tx := dataplane.NewTransaction()
		for range rapid.IntRange(0, 24).Draw(rt, "objects at the start") {
			w.event(rt, tx)
		}
		for range rapid.IntRange(1, 4).Draw(rt, "endpoints") {
			w.ids++
			addr := walkAddrs[rapid.IntRange(0, walkEndpoints-1).Draw(rt, "address")]
			w.createEndpoint(fmt.Sprint("ep-", w.ids), addr, rapid.Bool().Draw(rt, "bare"))
		}
		w.applyWhole(tx)
		w.finish()
		for range rapid.IntRange(1, 4).Draw(rt, "transactions") {
			w.window(rt)
		}
	})
}

// window applies one or two events under watch.
func (w *walker) window(t *rapid.T) {
	var events []event
	all := w.watched()
	next := w.cluster.clone()
	for range rapid.IntRange(1, 2).Draw(t, "objects") {
		e := next.drawEvent(t)
		e.apply(next, dataplane.NewTransaction())
		if e.first != nil {
			events = append(events, *e.first)
		}
		events = append(events, e)
	}
	before := w.sim.Dump()
	states := []map[probe]bool{verdicts(w.t, w.sim, all)}
	for _, some := range subsets(events) {
		states = append(states, w.reached(some, all)...)
	}

	tx := dataplane.NewTransaction()
	for _, e := range events {
		e.apply(w.cluster, tx)
		w.note("%s", e.text)
	}
	w.sim.OnCall(func(c hnsfault.Call, when hnsfault.When) {
		if when == hnsfault.Before || !isWrite(c.Op) {
			return
		}
		w.note("%s %s %+v %+v", c.Op, c.Target, c.Sets, c.ACLs)
	})
	w.sim.Watch(all...)
	w.applyWhole(tx)
	w.finish()
	if found := strays(w.sim.Transitions(), states); len(found) > 0 {
		w.fail("%s\nbefore:\n%s\nnow:", strings.Join(found, "\n"), before)
	}
	w.sim.Watch()
	w.sim.OnCall(nil)
	if len(w.report.Errors) > 0 {
		w.fail("errors: %s", strings.Join(w.report.Errors, "; "))
	}
	for p, allowed := range verdicts(w.t, w.sim, all) {
		if states[len(states)-1][p] != allowed {
			w.fail("%+v is allowed=%v in the end", p, allowed)
		}
	}
}

// subsets returns the non-empty subsets, in order; all of them come last.
func subsets(events []event) [][]event {
	var out [][]event
	for bits := 1; bits < 1<<len(events); bits++ {
		var some []event
		for i, e := range events {
			switch {
			case bits&(1<<i) == 0:
			case e.first != nil && bits&(1<<(i-1)) == 0:
				some = append(some, *e.alone)
			default:
				some = append(some, e)
			}
		}
		out = append(out, some)
	}
	return out
}

// watched returns the probes of the endpoints that have a pod, or nothing of
// ours. What others keep names sets that nobody defines any more.
func (w *walker) watched() []probe {
	left := map[string]bool{}
	for _, ep := range w.dp.Dump().Endpoints {
		left[ep.ID] = ep.Pod == "" && len(ep.Applied) > 0
	}
	return slices.DeleteFunc(probes(w.sim, walkAddrs[walkEndpoints:], walkPorts...), func(p probe) bool { return left[p.Endpoint] })
}

// reached returns the verdicts that a new dataplane on a copy of the node reaches after the
// events: those after the transaction, if more is due at once, and those in the end.
func (w *walker) reached(events []event, all []probe) []map[probe]bool {
	sim := copyOf(w.t, w.sim)
	copied := w.restarted(sim)
	copied.settle()
	tx := dataplane.NewTransaction()
	for _, e := range events {
		e.apply(copied.cluster, tx)
	}
	copied.apply(tx)
	states := []map[probe]bool{verdicts(w.t, sim, all)}
	if copied.finish() {
		states = append(states, verdicts(w.t, sim, all))
	}
	return states
}

// copyOf returns another node with the same sets and endpoints.
func copyOf(t require.TestingT, sim *hnsfault.Sim) *hnsfault.Sim {
	out := hnsfault.New(hnsfault.Options{Foreign: hnssim.DefaultForeign()})
	for _, kind := range []hns.SetType{hns.IPSet, hns.NestedIPSet} {
		for _, s := range sim.Sets() {
			if s.Type == kind {
				require.NoError(t, out.PutSet(s))
			}
		}
	}
	for _, e := range sim.Endpoints() {
		require.NoError(t, out.CreateEndpoint(hnssim.NewEndpoint{
			ID: e.ID, Addrs: e.Addrs, State: e.State, Remote: e.Remote, Network: e.Network, Policies: append([]hns.EndpointPolicy{}, e.Policies...),
		}))
	}
	return out
}
