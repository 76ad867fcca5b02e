package dataplane

import (
	"errors"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/drift"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/versioned"
	"github.com/winnpm/winnpm/pkg/ipsets"
)

// updatePods works through the queue of pending updates, until the next
// transaction is due. One that fails stays and does not stop the others; one whose
// sets are not ready waits for them.
func (r *run) updatePods() {
	d := r.d
	var due []string
	for _, ep := range d.due(r.started) {
		if ep.known() {
			due = append(due, ep.id)
		}
	}
	for i, id := range due {
		if r.ending {
			return
		}
		d.progress.note("updating", kindEndpoint, "", id)
		d.serve(id)
		if err := r.updatePod(id); err != nil {
			d.failed(d.endpoints[id], err, d.clock)
		}
		if r.yields(len(due) - i - 1) {
			return
		}
		r.pause() // many may wait for sets, and ask for nothing
	}
	r.probe()
}

// failed schedules the next try of an endpoint's update; ep may be gone, or
// right by somebody else's doing.
func (d *core) failed(ep *endpoint, err error, now time.Time) {
	if ep == nil || !ep.pending() {
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
		if errors.Is(err, errSetsNotReady) && !d.sets.At.IsZero() {
			ep.retryAt = d.sets.At
		}
		if _, refused := errors.AsType[*versioned.Refused](err); refused && ep.tries > soonTries {
			ask := backoff.Again{Tries: ep.tries - soonTries}
			ask.Wait(now)
			ep.retryAt = ask.At
		} else {
			d.soon(ep)
		}
	}
	d.join(ep)
}

// conflicted schedules the next try after a conflict: in the next round, which
// comes at once the first time. What goes on is an error like any other.
func (ep *endpoint) conflicted(err error, now time.Time) {
	ep.changes++
	switch {
	case ep.changes == 1:
		ep.retryAt = time.Time{}
	case ep.changes <= quietConflicts:
		ep.retryAt = now.Add(backoff.Spread(ep.id, ep.changes-1))
	default:
		ep.fail(err, now)
	}
}

// errSetsNotReady: an ACL waits for a set that could not be written.
var errSetsNotReady = errors.New("waits for a set that could not be written")

// updatePod gives one endpoint its desired rules, over one handle of HNS. One that was
// never right for its pod, and that fails, gets its block whatever came in between.
func (r *run) updatePod(id string) error {
	defer r.hold(id)()
	err := r.update(id)
	if err != nil && !r.fought(id, err) {
		r.isolate(id)
	}
	return err
}

// fought reports whether somebody else undoes what is written to an endpoint that
// was right before: its next write comes at once the first time, with the block
// first, and then as often as for any other object that is changed all the time. The
// same goes for an endpoint on which HNS takes every write and shows none: each Add more
// is one copy more.
func (r *run) fought(id string, err error) bool {
	ep := r.d.endpoints[id]
	conflict, is := errors.AsType[*versioned.Conflict](err)
	if !is || ep == nil {
		return false
	}
	return ep.writtenFor == ep.owner || conflict.Written && conflict.Cause == nil && ep.changes >= quietConflicts
}

// update works through an endpoint's steps, acl.MaxAdds at most. What HNS refuses of it is
// worked around one policy at a time, with steps that are planned anew; that may be
// long. Between two steps the rest is left to the next transaction when that is due:
// each step leaves what some of the changes alone would give (acl.Plan).
func (r *run) update(id string) error {
	for {
		ep, steps, ready := r.nextSteps(id)
		switch {
		case len(steps) == 0:
			return nil
		case !ready:
			return errSetsNotReady
		}
		for i, s := range steps {
			done, err := r.step(ep, s)
			if err != nil {
				return err
			}
			if !done {
				break
			}
			if ep.state.careful() {
				ep.trial = max(1, 2*ep.trial)
			}
			if r.tires(ep, len(steps)-i-1) {
				return nil
			}
		}
	}
}

// tires reports whether the rest of an endpoint's steps is left to the next
// transaction, which is due; left are those that are planned. After a careful one more
// may have to be. The rest has a turn of its own.
func (r *run) tires(ep *endpoint, left int) bool {
	d := r.d
	more := left > 0 || ep.state.careful()
	if !more || !r.yields(1) {
		return false
	}
	if ep.pending() {
		d.join(ep)
	}
	return true
}

// nextSteps plans an endpoint's update; no steps mean that it is done, or that
// nothing can be done now.
func (r *run) nextSteps(id string) (ep *endpoint, steps []acl.Step, ready bool) {
	d := r.d
	ep = d.endpoints[id]
	if ep == nil || !ep.pending() || !ep.known() {
		return ep, nil, true
	}
	steps = d.steps(ep)
	if ep.state.careful() {
		steps = d.carefulSteps(ep)
	}
	if len(steps) == 0 {
		d.queue(ep)
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

// ready reports whether the sets that the steps newly name are in HNS as
// they should be: a rule must never see one set as it was and another as it is. A rule
// that denies may see more in its sets than is wanted there.
func (d *core) ready(ep *endpoint, steps []acl.Step) bool {
	if d.cache.Settled() {
		return true
	}
	var all []hns.ACL
	for _, s := range steps {
		all = append(all, s.ACLs...)
	}
	added, removed := acl.Diff(ep.actual, all)
	closes := d.closes(steps, removed)
	return !slices.ContainsFunc(d.namesOf(added), func(n ipsets.Name) bool {
		if n.Denies() {
			return !d.cache.Ready(n) && !d.cache.Covers(n)
		}
		return !d.cache.Ready(n) && (!closes || !d.cache.Closed(n))
	})
}

// step makes one request for an endpoint, with the version that it was planned
// from, and records what is there then. done is false when the rest has to be
// planned anew.
func (r *run) step(ep *endpoint, s acl.Step) (done bool, err error) {
	d := r.d
	w := r.writer()
	from := ep.version
	write, reached := w.Replace, s.ACLs
	if s.Verb == hns.Add {
		write, reached = w.Add, slices.Concat(ep.actual, s.ACLs)
	}
	is, err := write(ep.id, from, s.ACLs)
	return d.wrote(ep, acl.Canonical(reached), s.ACLs, is, err)
}

// writer returns what writes for the run.
func (r *run) writer() versioned.Writer {
	return versioned.Writer{Ask: r.ask, Unchecked: r.d.cfg.Unchecked, Cut: r.d.spellings.OthersCut(), Split: r.d.spellings.Split, Learn: r.d.spellings.Learn}
}

// conflict takes over what a conflict showed, in place of everything that
// was thought of the endpoint: its list, what others have there, its addresses,
// the references and pins, and the desired rules, which follow from them.
func (d *core) conflict(ep *endpoint, reached []hns.ACL, c *versioned.Conflict) {
	if c.Written {
		d.conflicts.After++
		d.drift.Wrote(drift.OfEndpoint(ep.id))
		ep.actual = reached // what somebody else changed is the difference to this
		ep.repair = acl.Same(reached, d.desired(ep))
	} else {
		d.conflicts.Before++
	}
	e := c.Endpoint
	e.ID = ep.id // HNS may show it in the other case
	d.read(e)
	d.render(ep)
}

// wrote records the outcome of an ACL write: after it the endpoint has
// reached, with this version, if sent was accepted.
func (d *core) wrote(ep *endpoint, reached, sent []hns.ACL, is versioned.Done, err error) (done bool, _ error) {
	var conflict *versioned.Conflict
	var refused *versioned.Refused
	d.countRefusal(err)
	switch {
	case err == nil:
		ep.state.wrote()
		ep.distrusted, ep.unlisted = false, 0
		d.drift.Wrote(drift.OfEndpoint(ep.id))
		d.applied(ep, reached, is.Version)
		if is.After.ID != "" {
			_, ep.foreign = d.spellings.Split(is.After)
			ep.open, ep.seen = hns.DefaultsOf(ep.foreign), d.clock
		}
		if is.Cut || is.Whole {
			d.spellings.CutOthers(is.Cut)
		}
		return true, nil
	case hns.EndpointGone(err):
		d.gone(ep.id)
		if now := d.clock; now.Sub(d.listing.gone) < listAgain { // HNS may say so of one that it goes on listing
			d.listing.wanted, d.listing.retry = false, backoff.Retry{Tries: 1, At: now.Add(listAgain)}
		} else {
			d.listing.gone = now
		}
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
	d.drift.Wrote(drift.OfEndpoint(ep.id))
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
