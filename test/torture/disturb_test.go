package torture

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
)

// kind is one way to disturb a call.
type kind struct {
	name    string
	reads   bool // of reads too
	foreign bool // somebody else's hand: HNS may refuse what follows
	down    bool // the process stays away for the next step
	early   bool // before the re-read of an Update: what comes between the two is lost
	before  func(r *replay, c hnssim.Call)
	after   func(r *replay, c hnssim.Call)
}

// kinds are all of them.
var kinds = []kind{
	{name: "refused", reads: true, before: fault(hnssim.Refuse)},
	{name: "reply lost", before: fault(hnssim.LoseReply)},
	{name: "killed", after: kill(1)},
	{name: "killed twice", after: kill(2)},
	{name: "killed and away for a step", down: true, after: kill(1)},
	{name: "foreign rule added", foreign: true, early: true, before: addForeign},
	{name: "block dropped", foreign: true, early: true, before: dropACL(hns.Block)},
	{name: "allow dropped", foreign: true, before: dropACL(hns.Allow)},
	{name: "set emptied", foreign: true, before: emptySet},
	{name: "set dropped", foreign: true, before: dropSet},
	{name: "half done", foreign: true, before: half}, // but for an Update, which loses what is not ours
	{name: "all lost", foreign: true, before: loseAll},
}

// disturbance is a kind at a call.
type disturbance struct {
	kind       kind
	call       int    // from 0, of the steps
	op         string // of that call in the undisturbed run
	write      int    // from 1
	retryFirst bool   // the next step waits until retries are done
}

func (d *disturbance) String() string {
	if d == nil {
		return "none"
	}
	s := fmt.Sprintf("%s at call %d (%s, write %d)", d.kind.name, d.call, d.op, d.write)
	if d.retryFirst {
		s += ", retried before the next step"
	}
	return s
}

// disturbances returns everything that can be done to the calls of a run.
func (sc *scenario) disturbances(calls []hnssim.Call) []disturbance {
	var out []disturbance
	write := 0
	for i, c := range calls {
		if isWrite(c.Op) {
			write++
		}
		for _, k := range kinds {
			if !isWrite(c.Op) && !k.reads {
				continue
			}
			if k.name == "half done" && c.Op == "ACL/Update" {
				continue
			}
			at := i
			if k.early && c.Op == "ACL/Update" {
				at--
			}
			for _, retryFirst := range []bool{false, true} {
				out = append(out, disturbance{kind: k, call: at, op: calls[at].Op, write: write, retryFirst: retryFirst})
			}
		}
	}
	return out
}

// onCall sees every call on both sides.
func (r *replay) onCall(c hnssim.Call, when hnssim.When) {
	if !r.began {
		if when == hnssim.After && isWrite(c.Op) && !r.sc.blind {
			r.check("in the given part")
		}
		return
	}
	n := len(r.calls)
	d := r.disturb
	if when == hnssim.Before {
		r.calls = append(r.calls, c)
		if d != nil && n == d.call && !r.fired {
			r.note("disturbed: %v", d)
			r.fired = true
			r.kills = 0
			if d.kind.before != nil {
				d.kind.before(r, c)
			}
		}
		return
	}
	n--
	if !isWrite(c.Op) {
		return
	}
	r.note("%s", describe(c))
	r.check(fmt.Sprintf("after call %d", n))
	if d != nil && d.kind.after != nil && n >= d.call {
		d.kind.after(r, c)
	}
}

// describe words a write for whoever reads a failure.
func describe(c hnssim.Call) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  %s %s", c.Op, c.Target)
	for _, s := range c.Sets {
		fmt.Fprintf(&b, " [%s: %s]", s.Name, strings.Join(s.Values, ","))
	}
	for _, a := range c.ACLs {
		fmt.Fprintf(&b, " [%s %s %d local=%s remote=%s ports=%s%s]", a.ID, a.Direction, a.Priority, a.LocalAddresses, a.RemoteAddresses, a.LocalPorts, a.RemotePorts)
	}
	if c.Err != nil {
		fmt.Fprintf(&b, " -> %v", c.Err)
	}
	return b.String()
}

// fault takes the call that is about to be made.
func fault(mode hnssim.Mode) func(*replay, hnssim.Call) {
	return func(r *replay, c hnssim.Call) { r.sim.Inject(hnssim.Fault{Op: c.Op, Mode: mode}) }
}

// kill ends the process after the call, and further ones after their first write.
func kill(times int) func(*replay, hnssim.Call) {
	return func(r *replay, _ hnssim.Call) {
		if r.kills < times {
			r.kills++
			panic(killed{})
		}
	}
}

// half breaks the assumption that a write is atomic: only the end counts.
func half(r *replay, c hnssim.Call) {
	fault(hnssim.Half)(r, c)
	r.watch.damage.all = true
}

// loseAll is HNS that restarts and has lost everything of ours.
func loseAll(r *replay, _ hnssim.Call) {
	r.sim.Restart(true)
	r.watch.damage.all = true
}

// target picks the endpoint of a call, or any.
func (r *replay) target(c hnssim.Call) (hnssim.EndpointView, bool) {
	if e, ok := r.sim.Endpoint(c.Target); ok {
		return e, true
	}
	eps := r.sim.Endpoints()
	if len(eps) == 0 {
		return hnssim.EndpointView{}, false
	}
	return eps[r.disturb.call%len(eps)], true
}

// foreignRule is a rule of nobody we know that no packet meets.
var foreignRule = hns.NewACLPolicy(hns.ACL{
	ID: "other", Action: hns.Block, Direction: hns.In, RemoteAddresses: "10.8.8.8", RuleType: hns.Switch, Priority: 150,
})

func addForeign(r *replay, c hnssim.Call) {
	e, ok := r.target(c)
	_, others := hns.Endpoint{Policies: e.Policies}.Split()
	if !ok || len(others) == 0 { // the first rule would close the endpoint
		return
	}
	require.NoError(r.t, r.sim.SetPolicies(e.ID, append(e.Policies, foreignRule)))
	r.foreign = append(r.foreign, e.ID)
	r.note("a foreign rule on %s", e.ID)
}

// dropACL takes one of our rules off an endpoint.
func dropACL(action hns.Action) func(*replay, hnssim.Call) {
	return func(r *replay, c hnssim.Call) {
		e, ok := r.target(c)
		if !ok {
			return
		}
		at := slices.IndexFunc(e.Policies, func(p hns.EndpointPolicy) bool {
			a, err := p.ACL()
			return err == nil && a.Ours() && a.Action == action
		})
		if at < 0 {
			return
		}
		r.note("dropped on %s: %s", e.ID, e.Policies[at].Settings)
		r.watch.damage.endpoints = map[string]bool{e.ID: true}
		require.NoError(r.t, r.sim.SetPolicies(e.ID, slices.Delete(e.Policies, at, at+1)))
	}
}

// victims returns the sets that somebody may lay hands on: first those of the
// call, then all others.
func (r *replay) victims(c hnssim.Call) []hns.SetPolicy {
	named := map[string]bool{}
	for _, s := range c.Sets {
		named[s.ID] = true
	}
	for _, a := range c.ACLs {
		for _, id := range a.SetIDs() {
			named[id] = true
		}
	}
	sets := r.sim.Sets()
	slices.SortStableFunc(sets, func(a, b hns.SetPolicy) int {
		switch {
		case named[a.ID] == named[b.ID]:
			return 0
		case named[a.ID]:
			return -1
		}
		return 1
	})
	return sets
}

func emptySet(r *replay, c hnssim.Call) {
	for _, s := range r.victims(c) {
		if len(s.Values) == 0 {
			continue
		}
		r.note("emptied: %s", s.Name)
		r.watch.damage.sets = map[string]bool{s.ID: true}
		s.Values = nil
		require.NoError(r.t, r.sim.PutSet(s))
		return
	}
}

func dropSet(r *replay, c hnssim.Call) {
	for _, s := range r.victims(c) {
		if r.sim.DropSet(s.ID) == nil { // refused while in use
			r.note("dropped: %s", s.Name)
			r.watch.damage.sets = map[string]bool{s.ID: true}
			return
		}
	}
}
