package dataplane_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
)

// TestRandomNoWindowRefused: HNS refuses sets and rules, with codes of no known meaning
// too, does half of what it is to add, or does not answer. Nobody is let in who would not be by some of the objects, each
// whole, neither meanwhile nor after; and when HNS takes the sets again all is well.
func TestRandomNoWindowRefused(t *testing.T) {
	rounds(t, func(t *testing.T, rt *rapid.T, first *string) {
		w := newWalker(rt, t.Context(), dataplane.Config{MaxBatchedACLs: 30}, walkSim(), newCluster())
		w.first, w.faulty, w.rejecting = first, true, true
		w.hasty = rapid.Bool().Draw(rt, "hasty")
		w.cluster.faithful = true
		tx := dataplane.NewTransaction()
		for range rapid.IntRange(16, 48).Draw(rt, "objects at the start") {
			w.event(rt, tx)
		}
		for range rapid.IntRange(1, 3).Draw(rt, "endpoints") {
			w.ids++
			w.createEndpoint(fmt.Sprint("ep-", w.ids), walkAddrs[rapid.IntRange(0, walkEndpoints-1).Draw(rt, "address")], false)
		}
		w.applyWhole(tx)
		w.now = w.now.Add(time.Minute)
		w.settle()
		for range rapid.IntRange(1, 3).Draw(rt, "transactions") {
			w.refusedWindow(rt)
		}
	})
}

// refusedWindow applies one or two events under watch while HNS refuses sets.
func (w *walker) refusedWindow(t *rapid.T) {
	var names []string
	for _, s := range w.sim.Sets() {
		names = append(names, s.Name)
	}
	if len(names) == 0 {
		return // nothing to refuse in this history
	}
	all := w.watched()
	var events []event
	next := w.cluster.clone()
	for range rapid.IntRange(1, 2).Draw(t, "objects") {
		e := next.drawEvent(t)
		e.apply(next, dataplane.NewTransaction())
		if e.first != nil {
			events = append(events, *e.first)
		}
		events = append(events, e)
	}
	states := []map[probe]bool{verdicts(w.t, w.sim, all)}
	for _, some := range subsets(events) {
		states = append(states, w.reached(some, all)...)
	}
	w.drawRefusals(t, names)

	tx := dataplane.NewTransaction()
	for _, e := range events {
		e.apply(w.cluster, tx)
		w.note("%s", e.text)
	}
	w.sim.OnCall(func(c hnsfault.Call, when hnsfault.When) {
		if when == hnsfault.After && isWrite(c.Op) {
			w.note("%s %s %+v %+v: %v", c.Op, c.Target, c.Sets, c.ACLs, c.Err)
		}
	})
	before := w.sim.Dump()
	w.sim.Watch(all...)
	w.applyWhole(tx)
	for range rapid.IntRange(0, 6).Draw(t, "more") {
		w.now = w.now.Add(w.report.Next())
		w.applyWhole(dataplane.NewTransaction())
	}
	w.note("HNS takes everything")
	w.sim.RejectSet(nil)
	w.badPort = ""
	w.quell()
	for range 3 { // a nested set may have to wait for its leaves
		w.now = w.now.Add(11 * time.Minute)
		w.settle()
	}
	opened := slices.DeleteFunc(w.sim.Transitions(), func(x hnsfault.Transition) bool { return x.To == hnsfault.Denied })
	if found := strays(opened, states); len(found) > 0 {
		w.fail("%s\nbefore:\n%s\nnow:", strings.Join(found, "\n"), before)
	}
	w.sim.Watch()
	w.sim.OnCall(nil)
	for p, allowed := range verdicts(w.t, w.sim, all) {
		if states[len(states)-1][p] != allowed {
			w.fail("%+v is allowed=%v in the end", p, allowed)
		}
	}
}

// drawRefusals makes HNS refuse some sets and rules for good, others for a moment. That
// an Update is done as a whole or not at all is assumed; half an Add is rules less.
func (w *walker) drawRefusals(t *rapid.T, names []string) {
	bad := rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 3, rapid.ID).Draw(t, "refused")
	w.note("HNS refuses %v", bad)
	w.sim.RejectSet(func(s hns.SetPolicy) bool { return slices.Contains(bad, s.Name) })
	w.badPort = rapid.SampledFrom([]string{"", "", "80", "81", "80-81"}).Draw(t, "refused port")
	for range rapid.IntRange(0, 3).Draw(t, "faults") {
		op := rapid.SampledFrom([]string{
			"SetPolicy/Add", "SetPolicy/Update", "SetPolicy/Update", "SetPolicy/Remove", "ACL/Add", "ACL/Add", "ACL/Update", "ACL/Update", "Endpoint/Get",
		}).Draw(t, "call")
		modes := []hnsfault.Mode{hnsfault.Refuse, hnsfault.LoseReply}
		if op == "ACL/Add" {
			modes = append(modes, hnsfault.Half)
		}
		f := hnsfault.Fault{
			Op: op, Mode: rapid.SampledFrom(modes).Draw(t, "mode"),
			Nth: rapid.IntRange(1, 3).Draw(t, "nth"), Times: rapid.IntRange(1, 4).Draw(t, "times"),
			Err: rapid.SampledFrom([]error{hns.ErrUnavailable, hns.ErrUnlisted, hns.ErrUnlisted}).Draw(t, "error"),
		}
		w.cut = w.cut || op == "ACL/Update"
		w.note("fault %+v", f)
		w.sim.Inject(f)
	}
}
