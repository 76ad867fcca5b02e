package endpoints

import (
	"errors"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/versioned"
	"github.com/winnpm/winnpm/pkg/ipsets"
)

// Failed schedules the next try of an endpoint's update; ep may be gone, or
// right by somebody else's doing. setsAt is when sets are written again, zero for at once.
func (d *State) Failed(ep *Endpoint, err error, setsAt time.Time) {
	now := d.clock
	if ep == nil || !ep.Pending() {
		return
	}
	switch {
	case errors.Is(err, hns.ErrConflict):
		ep.conflicted(err, now)
		if again := d.resume(ep); again.After(ep.retryAt) {
			ep.retryAt = again // somebody keeps undoing what was written
		}
	default:
		ep.fail(err, now)
		if !errors.Is(err, ErrSetsNotReady) {
			d.closeStale(ep)
		} else if !setsAt.IsZero() {
			ep.retryAt = setsAt
		}
		if _, refused := errors.AsType[*versioned.Refused](err); refused && ep.tries > soonTries {
			ask := backoff.Again{Tries: ep.tries - soonTries}
			ask.Wait(now)
			ep.retryAt = ask.At
		} else {
			d.soon(ep)
		}
	}
	d.Join(ep)
}

// conflicted schedules the next try after a conflict: in the next round, which
// comes at once the first time. What goes on is an error like any other.
func (ep *Endpoint) conflicted(err error, now time.Time) {
	ep.conflicts++
	switch {
	case ep.conflicts == 1:
		ep.retryAt = time.Time{}
	case ep.conflicts <= quietConflicts:
		ep.retryAt = now.Add(backoff.Spread(ep.ID, ep.conflicts-1))
	default:
		ep.fail(err, now)
	}
}

// ready reports whether the sets that the steps newly name are in HNS as
// they should be: a rule must never see one set as it was and another as it is. A rule
// that denies may name sets with surplus members. On a stale endpoint, a rule that allows may name
// sets that lack members, because these members may be waiting for this update.
func (d *State) ready(ep *Endpoint, steps []acl.Step) bool {
	if d.cache.Settled() {
		return true
	}
	var all []hns.ACL
	for _, s := range steps {
		all = append(all, s.ACLs...)
	}
	added, removed := acl.Diff(ep.actual, all)
	closes := d.closes(steps, removed) || len(d.stale(ep)) > 0
	return !slices.ContainsFunc(d.namesOf(added), func(n ipsets.Name) bool {
		if n.Denies() {
			return !d.cache.Ready(n) && !d.cache.Covers(n)
		}
		return !d.cache.Ready(n) && (!closes || !d.cache.Closed(n))
	})
}

// conflict takes over what a conflict showed, in place of everything that
// was thought of the endpoint: its list, what others have there, its addresses,
// the references and pins, and the desired rules, which follow from them.
func (d *State) conflict(ep *Endpoint, reached []hns.ACL, c *versioned.Conflict) {
	if c.Written {
		d.conflicts.After++
		d.drift.wrote(drifting{endpoint: ep.ID})
		ep.actual = reached // what somebody else changed is the difference to this
		ep.repair = acl.Same(reached, d.listFor(ep))
	} else {
		d.conflicts.Before++
	}
	e := c.Endpoint
	e.ID = ep.ID // HNS may show it in the other case
	d.read(e)
	d.render(ep)
}

// Wrote takes what came of a write of sent. When HNS took it the endpoint has reached, with
// the version in is. done reports whether it was written; the error is for Failed.
func (d *State) Wrote(ep *Endpoint, reached, sent []hns.ACL, is versioned.Done, err error) (done bool, _ error) {
	var conflict *versioned.Conflict
	var refused *versioned.Refused
	switch {
	case err == nil:
		ep.state.wrote()
		d.drift.wrote(drifting{endpoint: ep.ID})
		d.applied(ep, reached, is.Version)
		if ep.Bisecting() && ep.testing == 0 { // a block may have come first
			ep.suspects = d.suspectsOf(ep, false)
		}
		d.pin(ep) // an update that ends with this step needs no more what it took away
		if is.Shown != nil {
			ep.foreign, ep.open, ep.seen = is.After.Foreign, is.After.Defaults, d.clock
			d.fresh[ep.ID] = is.Shown
		}
		if is.Cut || is.Whole {
			d.Spellings.CutOthers(is.Cut)
		}
		return true, nil
	case hns.EndpointGone(err):
		d.gone(ep.ID)
		return false, nil
	case errors.As(err, &conflict):
		d.conflict(ep, reached, conflict)
		return false, err
	case errors.Is(err, versioned.ErrUnread):
		return false, err
	case errors.As(err, &refused) && refusedObject(err) == hns.KindSet:
		// The sets are not as they are thought to be. HNS does not say which.
		for _, n := range d.namesOf(sent) {
			d.cache.Unknown(n)
		}
		return false, err
	case errors.As(err, &refused) && errors.Is(err, hns.ErrInvalid) && refusedObject(err) == hns.KindEndpoint:
		return false, err
	case errors.As(err, &refused):
		return false, d.refused(ep, sent, refused)
	}
	d.drift.wrote(drifting{endpoint: ep.ID})
	d.unknown(ep, reached)
	return false, err
}

// refusedObject returns the kind of object that an error of HNS speaks of, "" for
// none.
func refusedObject(err error) string {
	var op *hns.OpError
	if !errors.As(err, &op) {
		return ""
	}
	return op.Kind
}

// fail records a failed try and when the next one is due.
func (ep *Endpoint) fail(err error, now time.Time) {
	ep.tries++
	ep.lastErr = err
	ep.retryAt = now.Add(backoff.Spread(ep.ID, ep.tries))
}

// NextSteps plans an endpoint's update; no steps mean that it is done, or that
// nothing can be done now.
func (d *State) NextSteps(id string) (ep *Endpoint, steps []acl.Step, ready bool) {
	ep = d.byID[id]
	if ep == nil || !ep.Pending() || !ep.Known() {
		return ep, nil, true
	}
	steps = d.steps(ep)
	if ep.Bisecting() {
		steps = d.bisectSteps(ep)
	}
	if len(steps) == 0 {
		d.Queue(ep)
	}
	if d.ready(ep, steps) {
		return ep, steps, true
	}
	// A rule that goes waits for no set: what it sees may never change again.
	if closing := d.closingSteps(ep); len(closing) > 0 {
		return ep, closing, true
	}
	return ep, steps, false
}
