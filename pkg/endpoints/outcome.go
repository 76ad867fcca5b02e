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

// Failed schedules the next try of an endpoint's update; ep is nil if the endpoint is gone, and may
// have become right by itself. setsAt is when sets are written again, zero for immediately.
func (d *Table) Failed(ep *Tracked, err error, setsAt time.Time) {
	now := d.Clock
	if ep == nil || !ep.Pending() {
		return
	}
	switch {
	case errors.Is(err, hns.ErrConflict):
		ep.conflicted(err, now)
		if ep.repair { // another program may keep undoing the writes
			if again := d.resume(ep); again.After(ep.retryAt) {
				ep.retryAt = again
			}
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

// conflicted schedules the next try after a conflict. The first retry is immediate. After
// quietConflicts in a row, a conflict counts as any other error.
func (ep *Tracked) conflicted(err error, now time.Time) {
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

// ready reports whether HNS has the desired members in each set that the steps newly name: a rule
// must never see the old members of one set with the new ones of another. A rule
// that denies may name sets with surplus members. On a stale endpoint, a rule that allows may name
// sets that lack members, because these members may be waiting for this update.
func (d *Table) ready(ep *Tracked, steps []acl.Step) bool {
	var all []hns.ACL
	for _, s := range steps {
		all = append(all, s.ACLs...)
	}
	added, removed := acl.Diff(ep.Actual, all)
	closes := d.closes(steps, removed) || len(d.stale(ep)) > 0
	return !slices.ContainsFunc(namesOf(d.cache.Lookup, added), func(n ipsets.Name) bool {
		if n.Denies() {
			return !d.cache.Ready(n) && !d.cache.Covers(n)
		}
		return !d.cache.Ready(n) && (!closes || !d.cache.Closed(n))
	})
}

// conflict replaces the recorded state of the endpoint by the state that a conflict showed: its list, the policies of other programs, its addresses, and with these the references,
// the pins and the desired rules.
func (d *Table) conflict(ep *Tracked, reached []hns.ACL, c *versioned.Conflict) {
	if c.Written {
		d.conflicts.After++
		d.drift.wrote(drifting{endpoint: ep.ID})
		ep.Actual = reached // the changes of another program are the difference to this
		ep.repair = acl.Same(reached, ep.list)
	} else {
		d.conflicts.Before++
	}
	e := c.Endpoint
	e.ID = ep.ID // HNS may show it in another letter case
	d.read(e)
	d.render(ep)
}

// Wrote records the outcome of a write of sent, after which the endpoint should have the list reached.
// If the endpoint was read after the write, is has the list that the read showed, and that list is
// recorded. done reports whether the write was done; the error is for Failed.
func (d *Table) Wrote(ep *Tracked, reached, sent []hns.ACL, is versioned.Done, err error) (done bool, _ error) {
	if is.Shown != nil {
		reached = is.After.Ours
	} else {
		reached = acl.Canonical(reached)
	}
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
		d.pin(ep) // if the update ends with this step, it no longer needs the sets of removed rules
		if is.Shown != nil {
			ep.foreign, ep.open, ep.seen = is.After.Foreign, is.After.Defaults, d.Clock
			d.fresh[ep.ID] = is.Shown
			d.relist(ep)
		}
		if is.OtherForm {
			d.Spellings.tookOtherForm()
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
		// The recorded state of some set is wrong. HNS does not say which one.
		for _, n := range namesOf(d.cache.Lookup, sent) {
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

// refusedObject returns the kind of object that an error of HNS is about, "" if it does
// not say.
func refusedObject(err error) string {
	var op *hns.OpError
	if !errors.As(err, &op) {
		return ""
	}
	return op.Kind
}

// fail records a failed try and when the next one is due.
func (ep *Tracked) fail(err error, now time.Time) {
	ep.tries++
	ep.lastErr = err
	ep.retryAt = now.Add(backoff.Spread(ep.ID, ep.tries))
}

// NextSteps plans an endpoint's update. Without steps the update is done, or cannot go on
// now. ready is false if the steps have to wait for sets.
func (d *Table) NextSteps(id string) (ep *Tracked, steps []acl.Step, ready bool) {
	ep = d.byID[id]
	if ep == nil || !ep.Pending() || !ep.Known() {
		return ep, nil, true
	}
	if ep.Bisecting() {
		steps = d.bisectSteps(ep)
	} else {
		steps = d.steps(ep)
	}
	if len(steps) == 0 {
		d.Queue(ep)
	}
	if d.cache.Settled() || d.ready(ep, steps) {
		return ep, steps, true
	}
	// The removal of a rule waits for no set: the members of its sets may never change again.
	if closing := d.closingSteps(ep); len(closing) > 0 {
		return ep, closing, true
	}
	return ep, steps, false
}
