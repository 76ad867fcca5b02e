package torture

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
)

// owed returns the endpoints that are written after a call in the transaction
// that makes it, and have nothing to do with its object: whatever becomes of the
// call, they are served in that transaction (I9). Of a set those that name no set
// that it or a later request of the transaction writes, nor any nested one.
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

// onEndpoint reports whether a call writes rules.
func onEndpoint(c hnssim.Call) bool { return c.Op == hns.OpACLAdd || c.Op == hns.OpACLUpdate }

// checkServed: the transaction that was disturbed is over.
func (r *replay) checkServed() {
	for _, id := range r.disturb.owed {
		if !slices.ContainsFunc(r.calls[r.disturb.call:], func(c hnssim.Call) bool { return onEndpoint(c) && c.Target == id }) {
			r.fail("endpoint %s, which has nothing to do with it, was not served in the same transaction", id)
		}
	}
}

// stick has HNS refuse a call and all of its kind from now on: writes to that
// endpoint, or writes of sets.
func (r *replay) stick(c hnssim.Call) {
	r.stuckOn = c.Target
	r.stuck = func(o hnssim.Call) bool {
		if onEndpoint(c) {
			return onEndpoint(o) && o.Target == c.Target
		}
		return strings.HasPrefix(o.Op, "SetPolicy/")
	}
	r.hold(c)
}

// hold refuses a call of the kind that is refused for good.
func (r *replay) hold(c hnssim.Call) {
	if r.stuck != nil && r.stuck(c) {
		r.sim.Inject(hnssim.Fault{Op: c.Op, Target: c.Target, Mode: hnssim.Refuse})
	}
}

// What ten minutes of refusals may cost. Pauses of 1, 2, 4, 8, 16 and then 30 s,
// from the third on up to a fifth shorter, make at most 30 rounds; each makes a few
// reads and one write, of sets one in each phase. Of an endpoint that is open it makes
// three: its step, the shared rules, and those that are essential, each between
// reads. What else is due meanwhile has the same pauses.
const (
	patience = 10 * time.Minute
	maxTries = 30
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
	if e, ok := r.sim.Endpoint(r.stuckOn); ok && r.watch.newborn(e, cluster(r.todo.now.values())) {
		most = maxOpen
	}
	first, end := len(r.calls), r.now.Add(patience)
	for r.report.RetryAfter > 0 && !r.now.Add(r.report.RetryAfter).After(end) && len(r.calls)-first <= most*maxCalls {
		r.now = r.now.Add(r.report.RetryAfter)
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
	if r.report.Unprogrammed > 0 && tries < maxTries/2 {
		r.fail("it gives up: %d tries within %v", tries, patience)
	}
	r.stuck = nil
}
