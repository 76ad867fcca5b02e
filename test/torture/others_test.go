package torture

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
)

// owed returns the endpoints that a transaction writes after a call and that have nothing
// to do with the call's object. That transaction serves them whatever becomes of the call
// (I9). For a write of sets they are those whose rules name no nested set, and no set that
// this or a later request of the transaction writes.
func (r *replay) owed(call int) []string {
	c := r.calls[call]
	leaves, sets := map[string]bool{}, c.Sets
	for _, s := range r.sim.Sets() {
		leaves[s.ID] = s.Type == hns.IPSet
	}
	waits := map[string]bool{} // by endpoint
	for i := call + 1; i < len(r.calls) && r.applies[i] == r.applies[call]; i++ {
		later := r.calls[i]
		sets = append(slices.Clone(sets), later.Sets...)
		if !onEndpoint(later) || later.Target == c.Target || c.Op == hns.OpNetworkGet || c.Op == hns.OpEndpointIDs {
			continue
		}
		waits[later.Target] = waits[later.Target] || len(c.Sets) > 0 && slices.ContainsFunc(later.ACLs, func(a hns.ACL) bool {
			return slices.ContainsFunc(a.SetIDs(), func(id string) bool {
				return !leaves[id] || slices.ContainsFunc(sets, func(s hns.SetPolicy) bool { return s.ID == id })
			})
		})
	}
	maps.DeleteFunc(waits, func(_ string, is bool) bool { return is })
	return slices.Sorted(maps.Keys(waits))
}

// owedBut returns the endpoints that a transaction writes after a call, and whose rules do
// not name the victim, directly or through a nested set. If HNS rejects only that set, the
// transaction serves them, also those that need other sets of the same request.
func (r *replay) owedBut(call int, victim string) []string {
	touched := map[string]bool{}
	for _, nested := range []bool{false, true} {
		for _, c := range r.calls {
			for _, s := range c.Sets {
				touched[s.ID] = touched[s.ID] || s.Name == victim || nested && slices.ContainsFunc(s.Values, func(v string) bool { return touched[v] })
			}
		}
	}
	clean := map[string]bool{} // by endpoint
	for i := call + 1; i < len(r.calls) && r.applies[i] == r.applies[call]; i++ {
		c := r.calls[i]
		if !onEndpoint(c) {
			continue
		}
		names := slices.ContainsFunc(c.ACLs, func(a hns.ACL) bool {
			return slices.ContainsFunc(a.SetIDs(), func(id string) bool { return touched[id] })
		})
		is, ok := clean[c.Target]
		clean[c.Target] = (is || !ok) && !names
	}
	maps.DeleteFunc(clean, func(_ string, is bool) bool { return !is })
	return slices.Sorted(maps.Keys(clean))
}

// onEndpoint reports whether a call writes rules.
func onEndpoint(c hnsfault.Call) bool { return c.Op == hns.OpACLAdd || c.Op == hns.OpACLUpdate }

// checkServed: the transaction that was disturbed is over.
func (r *replay) checkServed() {
	for _, id := range r.disturb.owed {
		if !slices.ContainsFunc(r.calls[r.disturb.call:], func(c hnsfault.Call) bool { return onEndpoint(c) && c.Target == id }) {
			r.fail("endpoint %s, which has nothing to do with it, was not served in the same transaction", id)
		}
	}
}

// stick makes HNS refuse a call and all later ones of its kind: writes to that endpoint, or
// writes of sets.
func (r *replay) stick(c hnsfault.Call) {
	r.stuckOn = c.Target
	r.refuse = hnsfault.Fault{Mode: hnsfault.Refuse}
	r.stuck = func(o hnsfault.Call) bool {
		if onEndpoint(c) {
			return onEndpoint(o) && o.Target == c.Target
		}
		return strings.HasPrefix(o.Op, "SetPolicy/")
	}
	r.hold(c)
}

// stickSet makes HNS refuse every later request that writes one set; the rest of the
// request is valid.
func stickSet(class error, code uint32) func(*replay, hnsfault.Call) {
	return func(r *replay, c hnsfault.Call) {
		victim := r.disturb.victim
		r.refuse = hnsfault.Fault{Mode: hnsfault.Refuse, Err: class, Code: code}
		r.stuck = func(o hnsfault.Call) bool {
			return slices.ContainsFunc(o.Sets, func(s hns.SetPolicy) bool { return s.Name == victim })
		}
		r.refused = true
		r.hold(c)
	}
}

// hold refuses a call of the kind that is refused for good.
func (r *replay) hold(c hnsfault.Call) {
	if r.stuck != nil && r.stuck(c) {
		f := r.refuse
		f.Op, f.Target = c.Op, c.Target
		r.sim.Inject(f)
	}
}

// What ten minutes of refusals may cost. Pauses of 1, 2, 4, 8, 16 and then 30 s,
// from the third on up to a fifth shorter, make at most 30 rounds; each makes a few
// reads and one write, of sets one in each phase. Of an endpoint that is open it makes
// three: its step, the shared rules, and those that are essential, each between
// reads. What else is due meanwhile has the same pauses.
const (
	patience = 10 * time.Minute
	maxTries = 35  // sets that cannot be removed have pauses of their own
	maxOpen  = 130 // tries for an endpoint that is open: every 5 s
	maxCalls = 10  // for each try
)

// endure lets ten minutes pass in which HNS goes on refusing: nothing spins, and
// nothing is given up (I9).
func (r *replay) endure() {
	if r.stuck == nil {
		return
	}
	r.note("ten minutes of refusals")
	most := maxTries
	if e, ok := r.sim.Endpoint(r.stuckOn); ok && (r.watch.newborn(e, cluster(r.todo.now.values())) || r.watch.damage.all || r.watch.damage.endpoints[e.ID]) {
		most = maxOpen
	}
	first, end := len(r.calls), r.now.Add(patience)
	for r.report.Next() > 0 && !r.now.Add(r.report.Next()).After(end) && len(r.calls)-first <= most*maxCalls {
		r.now = r.now.Add(r.report.Next())
		r.apply(dataplane.NewTransaction())
	}
	rounds := map[int]bool{} // with a try
	for i, c := range r.calls[first:] {
		if r.stuck(c) {
			rounds[r.applies[first+i]] = true
		}
	}
	tries := len(rounds)
	if calls := len(r.calls) - first; tries > most || calls > most*maxCalls {
		r.fail("it spins: %d tries and %d calls within %v", tries, calls, patience)
	}
	least := maxTries / 2
	if r.refused {
		least = 4 // after 30 s, 1, 2 and 5 min
	}
	if r.report.Unprogrammed > 0 && tries < least {
		r.fail("it gives up: %d tries within %v", tries, patience)
	}
	r.stuck = nil
}
