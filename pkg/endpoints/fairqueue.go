package endpoints

import (
	"cmp"
	"maps"
	"slices"
)

// The queue of pending updates is fair between namespaces, and within one between
// causes: every policy that changed is one, and whatever pods, other namespaces and
// the node bring is another. Namespaces take turns, one endpoint each, whatever the
// number of their policies; within a namespace its causes take turns of its own. So a
// change of one endpoint does not wait for another one of a hundred, nor for a hundred
// changes of another tenant. Nothing waits for good: what joins has a later turn than
// what was served last, and every transaction serves the first of the queue. Before all
// of them goes an endpoint that is open, once.

// subqueue is who takes turns with others: a namespace, by its name, or one of those
// below, which no namespace is called. There is one for each that has endpoints in the
// queue.
type subqueue struct {
	next  uint64 // turn of the queue in which it is served next
	order uint64 // in which the subqueues got these: of one turn, the first goes first
	turn  uint64 // of its own: the last that was served
}

const (
	queueOfRepairs = "/repair"
	queueOfRetries = "/retry"
)

// subqueue returns the name of the subqueue in which a cause waits.
func (c cause) subqueue() string {
	switch c.kind {
	case causeRepair:
		return queueOfRepairs
	case causeRetry:
		return queueOfRetries
	default:
		return c.policy.Namespace
	}
}

// subqueueRank sorts subqueues that have the same turn: namespaces first.
func subqueueRank(name string) int {
	return slices.Index([]string{queueOfRepairs, queueOfRetries}, name)
}

// Join gives an endpoint the next turn of its cause.
func (d *State) Join(ep *Endpoint) {
	why := d.cause(ep)
	ep.turn = 0 // for itself it does not wait
	d.enter(ep, why.subqueue())
	if _, ok := d.subqueues[ep.subqueue]; !ok {
		d.moveSubqueue(ep.subqueue, 0)
	}
	last := d.subqueues[ep.subqueue].turn
	for other := range d.members[ep.subqueue] {
		if other.turn > last && (why.kind == causeRetry || d.cause(other) == why) {
			last = other.turn
		}
	}
	ep.turn = last + 1
	ep.state.join()
}

// enter moves an endpoint to a subqueue. Those of others are not looked at when one joins.
func (d *State) enter(ep *Endpoint, name string) {
	delete(d.members[ep.subqueue], ep)
	if d.members[name] == nil {
		d.members[name] = map[*Endpoint]bool{}
	}
	d.members[name][ep] = true
	ep.subqueue = name
}

// rejoin has an endpoint of the queue wait for what changed its desired rules now: where
// it would have had its turn before, it keeps that.
func (d *State) rejoin(ep *Endpoint) {
	if !ep.Pending() {
		return
	}
	was, turn := ep.subqueue, ep.turn
	if d.Join(ep); ep.subqueue == was {
		ep.turn = min(ep.turn, turn)
	}
}

// moveSubqueue gives a subqueue that joins, or was served, the next turn of the queue;
// turn is the last of its own. What failed goes behind all others: its calls may take
// long, and its pause may be shorter.
func (d *State) moveSubqueue(name string, turn uint64) {
	last, order := d.turn, uint64(0)
	for _, l := range d.subqueues {
		order = max(order, l.order)
	}
	if name == queueOfRetries { // every endpoint that is served comes here: only this one looks at all others
		last = max(last, d.lastTurn())
	}
	d.subqueues[name] = subqueue{next: last + 1, order: order + 1, turn: turn}
}

// lastTurn returns the turn of the queue in which the last of the endpoints is served that
// wait for something else than another try.
func (d *State) lastTurn() (last uint64) {
	waiting := map[string]uint64{}
	for _, ep := range d.byID {
		if ep.Pending() && ep.subqueue != queueOfRetries {
			waiting[ep.subqueue]++
			last = max(last, max(d.subqueues[ep.subqueue].next, d.turn)+waiting[ep.subqueue]-1)
		}
	}
	return last
}

// Serve notes whose turn it is.
func (d *State) Serve(id string) {
	ep := d.byID[id]
	if ep == nil || !ep.Pending() {
		return
	}
	l := d.subqueues[ep.subqueue]
	d.turn = max(d.turn, l.next)
	d.moveSubqueue(ep.subqueue, max(l.turn, ep.turn))
}

// ForgetSubqueues drops the subqueues that nobody waits in any more.
func (d *State) ForgetSubqueues() {
	if len(d.subqueues) == 0 {
		return
	}
	waits := map[string]bool{}
	for _, ep := range d.byID {
		waits[ep.subqueue] = waits[ep.subqueue] || ep.Pending()
	}
	maps.DeleteFunc(d.subqueues, func(name string, _ subqueue) bool { return !waits[name] })
	maps.DeleteFunc(d.members, func(name string, _ map[*Endpoint]bool) bool { return !waits[name] })
}

// pending returns the endpoints with an outstanding update, in the order
// of the queue.
func (d *State) pending() []*Endpoint { return pending(d.byID, d.subqueues, d.turn) }

func pending(endpoints map[string]*Endpoint, subqueues map[string]subqueue, turn uint64) []*Endpoint {
	var out []*Endpoint
	for _, ep := range endpoints {
		if ep.Pending() {
			out = append(out, ep)
		}
	}
	return inOrder(out, subqueues, turn)
}

// inOrder sorts endpoints by their turns: those of one subqueue follow each other in its
// order, one in each turn of the queue, of which turn was served last. Of one turn,
// events go before repairs and these before what failed; else, who has fewer before him
// in his subqueue has waited longer for it. A subqueue of which nobody was due does not make up
// for what it has missed.
func inOrder(eps []*Endpoint, subqueues map[string]subqueue, turn uint64) []*Endpoint {
	slices.SortFunc(eps, func(a, b *Endpoint) int {
		return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.causeKind(), b.causeKind()), cmp.Compare(a.ID, b.ID))
	})
	before := make(map[*Endpoint]uint64, len(eps)) // in its subqueue
	taken := map[string]uint64{}
	for _, ep := range eps {
		before[ep] = taken[ep.subqueue]
		taken[ep.subqueue]++
	}
	slices.SortFunc(eps, func(a, b *Endpoint) int {
		la, lb := subqueues[a.subqueue], subqueues[b.subqueue]
		return cmp.Or(cmp.Compare(max(la.next, turn)+before[a], max(lb.next, turn)+before[b]), cmp.Compare(subqueueRank(a.subqueue), subqueueRank(b.subqueue)),
			cmp.Compare(before[a], before[b]), cmp.Compare(la.order, lb.order), cmp.Compare(a.subqueue, b.subqueue))
	})
	return eps
}
