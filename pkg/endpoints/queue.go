package endpoints

import (
	"cmp"
	"slices"
	"time"
)

// The queue of pending updates is fair between namespaces. Each namespace is a flow, and so are
// repairs and failed updates of the whole node. A flow is served in the order in which its
// endpoints joined, and one of each flow has the same turn. So a change of one endpoint
// does not wait for the hundred changes of another tenant, and nothing waits forever: an endpoint
// that joins has a later turn than the one that was served last.

// Names of flows. No namespace can have these names.
const (
	flowOfRepairs = "/repair"
	flowOfRetries = "/retry"
)

// flowOf returns the flow in which an endpoint waits, or would.
func (d *Table) flowOf(ep *Tracked) string {
	switch {
	case ep.tries > 0:
		return flowOfRetries
	case ep.repair:
		return flowOfRepairs
	}
	if p := d.desired.Local(ep.owner); p != nil {
		return p.Namespace
	}
	return ""
}

// Join puts an endpoint behind all others of its flow. One that failed goes behind all
// endpoints that wait, as its calls may take long.
func (d *Table) Join(ep *Tracked) {
	was := ep.state.update
	d.leave(ep)
	ep.flow = d.flowOf(ep)
	last := max(d.turn, d.lastTurns[ep.flow])
	if ep.flow == flowOfRetries {
		for _, turn := range d.lastTurns {
			last = max(last, turn)
		}
	}
	ep.turn = last + 1
	d.lastTurns[ep.flow] = ep.turn
	ep.state.update = max(was, updatePending)
}

// leave takes an endpoint out of the queue. If it leaves its place unserved, the endpoints behind it
// in its flow move up.
func (d *Table) leave(ep *Tracked) {
	if ep.turn > d.turn {
		d.lastTurns[ep.flow]--
		for _, other := range d.byID {
			if other.flow == ep.flow && other.turn > ep.turn {
				other.turn--
			}
		}
	}
	ep.turn = 0
	ep.state.update = updateSettled
}

// Serve records that it is the turn of an endpoint.
func (d *Table) Serve(id string) {
	if ep := d.byID[id]; ep != nil {
		d.turn = max(d.turn, ep.turn)
	}
}

// sortByTurn sorts endpoints by their turns. Within a turn, updates for events come first, then
// repairs, then failed updates.
func sortByTurn(eps []*Tracked) {
	rank := func(ep *Tracked) int { return slices.Index([]string{flowOfRepairs, flowOfRetries}, ep.flow) }
	slices.SortFunc(eps, func(a, b *Tracked) int {
		return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(rank(a), rank(b)), cmp.Compare(a.ID, b.ID))
	})
}

// maxAhead is how many turns a flow may be ahead of the endpoint that has waited longest, and
// still have its open endpoints go first.
const maxAhead = 16

// Due returns the endpoints whose update is due, in the order of the queue. After HNS lost
// everything every endpoint needs a repair, so one transaction makes only some repairs. An open
// endpoint goes before all others, once: each new pod is open once. A tenant that starts pods all
// the time has maxAhead of them served before others that wait.
func (d *Table) Due(now time.Time) []*Tracked {
	var due []*Tracked
	for _, ep := range d.byID {
		if ep.Pending() && !ep.retryAt.After(now) {
			due = append(due, ep)
		}
	}
	if len(due) == 0 {
		return nil
	}
	sortByTurn(due)
	repairs := 0
	due = slices.DeleteFunc(due, func(ep *Tracked) bool {
		if ep.repair {
			repairs++
		}
		return ep.repair && repairs > d.cfg.MaxRepairs
	})
	next := map[string]uint64{} // by flow: the first turn
	for _, ep := range slices.Backward(due) {
		next[ep.flow] = ep.turn
	}
	before := map[string]uint64{} // in the flow
	for _, ep := range due {      // a flow that was paused does not make up for the turns that it missed
		if n := before[ep.flow]; n > 0 {
			ep.turn = max(ep.turn, d.turn+n)
			d.lastTurns[ep.flow] = max(d.lastTurns[ep.flow], ep.turn)
		}
		before[ep.flow]++
	}
	sortByTurn(due)
	ahead := func(ep *Tracked) bool {
		return ep.tries == 0 && ep.Open() && next[ep.flow] <= due[0].turn+maxAhead
	}
	return slices.Concat(
		slices.DeleteFunc(slices.Clone(due), func(ep *Tracked) bool { return !ahead(ep) }),
		slices.DeleteFunc(slices.Clone(due), ahead))
}
