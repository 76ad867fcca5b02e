package dataplane

import (
	"cmp"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/policy"
)

// The queue of pending updates is fair between causes: every policy that changed
// is one, and whatever pods, namespaces and the node bring is another. Causes take
// turns, one endpoint each, so a change of one endpoint does not wait for another
// one of a hundred, and nothing waits for good: what joins has a later turn than
// what was served last, and every transaction serves the first of the queue.

// cause is why an endpoint is in the queue.
type cause struct {
	kind   causeKind
	policy policy.Key // of causePolicy
}

type causeKind uint8

// The kinds, in the order in which they come of one turn. A newborn endpoint was
// never right for its pod, so it may be open.
const (
	causePolicy causeKind = iota
	causeNewborn
	causePod // or a namespace, or the node
	causeRepair
	causeRetry
)

func (ep *endpoint) cause() cause {
	switch {
	case ep.tries > 0:
		return cause{kind: causeRetry}
	case ep.repair:
		return cause{kind: causeRepair}
	case ep.changedBy != policy.Key{}:
		return cause{causePolicy, ep.changedBy}
	case ep.newborn():
		return cause{kind: causeNewborn}
	}
	return cause{kind: causePod}
}

// nextTurnLocked returns the next turn of an endpoint's cause. What failed goes
// behind all others: its calls may take long, and its pause may be shorter. d.mu
// must be held.
func (d *Dataplane) nextTurnLocked(ep *endpoint) uint64 {
	last, why := d.turn, ep.cause()
	for _, other := range d.endpoints {
		if other != ep && other.queued > last && (why.kind == causeRetry || other.cause() == why) {
			last = other.queued
		}
	}
	return last + 1
}

// serveLocked notes whose turn it is. d.mu must be held.
func (d *Dataplane) serveLocked(id string) {
	if ep := d.endpoints[id]; ep != nil {
		d.turn = max(d.turn, ep.queued)
	}
}

// yields ends the turn of an endpoint that was read or written; left are those
// that wait for theirs. It reports whether they are left to the next transaction.
func (r *run) yields(left int) bool {
	r.turns++
	if r.yielded == 0 && left > 0 && r.yield != nil && r.yield(r.turns) {
		r.yielded = r.turns
	}
	return r.yielded > 0
}

// markLocked has an endpoint rendered again, because a policy changed or, with
// the zero key, something else. d.mu must be held.
func (d *Dataplane) markLocked(ep *endpoint, by policy.Key) {
	causes := d.dirty[ep]
	if by != (policy.Key{}) {
		causes = append(causes, by)
	}
	d.dirty[ep] = causes
}

// settleCausesLocked leaves of several policies the one that the fewest endpoints
// are marked for: a policy on all pods does not make one on a single pod wait. d.mu
// must be held.
func (d *Dataplane) settleCausesLocked() {
	marks := map[policy.Key]int{}
	for _, by := range d.dirty {
		for _, key := range by {
			marks[key]++
		}
	}
	for ep, by := range d.dirty {
		if len(by) > 1 {
			d.dirty[ep] = []policy.Key{slices.MinFunc(by, func(a, b policy.Key) int {
				return cmp.Or(cmp.Compare(marks[a], marks[b]), compareKeys(a, b))
			})}
		}
	}
}

// pendingLocked returns the endpoints with an outstanding update, in the order
// of the queue. d.mu must be held.
func (d *Dataplane) pendingLocked() []*endpoint { return pending(d.endpoints) }

func pending(endpoints map[string]*endpoint) []*endpoint {
	var out []*endpoint
	for _, ep := range endpoints {
		if ep.queued > 0 {
			out = append(out, ep)
		}
	}
	slices.SortFunc(out, func(a, b *endpoint) int {
		return cmp.Or(cmp.Compare(a.queued, b.queued), cmp.Compare(a.cause().kind, b.cause().kind), cmp.Compare(a.id, b.id))
	})
	return out
}

// dueLocked returns the endpoints whose update is due, in the order of the
// queue. After HNS lost everything every endpoint needs a repair, so a round makes
// some of them only, and events that come meanwhile go before the rest. d.mu must
// be held.
func (d *Dataplane) dueLocked(now time.Time) []*endpoint {
	var out []*endpoint
	repairs := 0
	for _, ep := range d.pendingLocked() {
		if ep.retryAt.After(now) {
			continue
		}
		if ep.repair {
			if repairs == d.cfg.MaxRepairs {
				continue
			}
			repairs++
		}
		out = append(out, ep)
	}
	return out
}
