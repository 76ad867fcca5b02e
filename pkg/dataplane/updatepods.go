package dataplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/versioned"
	"github.com/winnpm/winnpm/pkg/ipsets"
)

// updatePods works through the queue of pending updates, until the next
// transaction is due. One that fails stays and does not stop the others; one whose
// sets are not ready waits for them.
func (r *run) updatePods(ctx context.Context) {
	d := r.d
	d.mu.Lock()
	var due []string
	for _, ep := range d.dueLocked(r.started) {
		if ep.known() {
			due = append(due, ep.id)
		}
	}
	d.mu.Unlock()
	for i, id := range due {
		if ctx.Err() != nil {
			return
		}
		d.mu.Lock()
		d.serveLocked(id)
		d.mu.Unlock()
		if err := r.updatePod(ctx, id); err != nil {
			d.mu.Lock()
			d.failedLocked(d.endpoints[id], err, d.cfg.Now())
			d.mu.Unlock()
		}
		if r.yields(len(due) - i - 1) {
			return
		}
	}
}

// failedLocked schedules the next try of an endpoint's update; ep may be gone, or
// right by somebody else's doing. d.mu must be held.
func (d *Dataplane) failedLocked(ep *endpoint, err error, now time.Time) {
	if ep == nil || ep.queued == 0 {
		return
	}
	switch {
	case errors.Is(err, hns.ErrConflict):
		ep.conflicted(err, now)
		if again := d.resumeLocked(ep); again.After(ep.retryAt) {
			ep.retryAt = again // somebody keeps undoing what was written
		}
	default:
		ep.fail(err, now)
		if errors.Is(err, errSetsNotReady) && !d.sets.at.IsZero() {
			ep.retryAt = d.sets.at
		}
	}
	ep.queued = d.nextTurnLocked(ep)
}

// quietConflicts is how many conflicts in a row are nobody's concern.
const quietConflicts = 2

// conflicted schedules the next try after a conflict: in the next round, which
// comes at once the first time. What goes on is an error like any other.
func (ep *endpoint) conflicted(err error, now time.Time) {
	ep.changes++
	switch {
	case ep.changes == 1:
		ep.retryAt = time.Time{}
	case ep.changes <= quietConflicts:
		ep.retryAt = now.Add(spread(ep.id, ep.changes-1))
	default:
		ep.fail(err, now)
	}
}

// errSetsNotReady: an ACL waits for a set that could not be written.
var errSetsNotReady = errors.New("waits for a set that could not be written")

// updatePod brings one endpoint to its wish. What HNS refuses of it is worked
// around one policy at a time, with steps that are planned anew.
func (r *run) updatePod(ctx context.Context, id string) error {
	for {
		ep, steps, ready := r.nextSteps(id)
		switch {
		case len(steps) == 0:
			return nil
		case !ready:
			return errSetsNotReady
		}
		for _, s := range steps {
			done, err := r.step(ctx, ep, s)
			if err != nil {
				return err
			}
			if !done {
				break
			}
		}
	}
}

// nextSteps plans an endpoint's update; no steps mean that it is done, or that
// nothing can be done now.
func (r *run) nextSteps(id string) (ep *endpoint, steps []step, ready bool) {
	d := r.d
	d.mu.Lock()
	defer d.mu.Unlock()
	ep = d.endpoints[id]
	if ep == nil || ep.queued == 0 || !ep.known() {
		return ep, nil, true
	}
	steps = d.stepsLocked(ep)
	if ep.careful {
		steps = d.carefulStepsLocked(ep)
	}
	if len(steps) == 0 {
		d.queueLocked(ep)
	}
	return ep, steps, d.readyLocked(ep, steps)
}

// readyLocked reports whether the sets that the steps newly name are in HNS as
// they should be: a rule must never see one set as it was and another as it is.
// d.mu must be held.
func (d *Dataplane) readyLocked(ep *endpoint, steps []step) bool {
	if d.cache.Settled() {
		return true
	}
	var all []hns.ACL
	for _, s := range steps {
		all = append(all, s.acls...)
	}
	added, removed := diffACLs(ep.applied, all)
	closes := d.closesLocked(steps, removed)
	return !slices.ContainsFunc(d.namesOfLocked(added), func(n ipsets.Name) bool {
		return !d.cache.Ready(n) && !(closes && d.cache.Closed(n))
	})
}

// step makes one request for an endpoint, with the version that it was planned
// from, and records what is there then. done is false when the rest has to be
// planned anew.
func (r *run) step(ctx context.Context, ep *endpoint, s step) (done bool, err error) {
	d := r.d
	w := versioned.Writer{Client: counted{r}, Unchecked: d.cfg.Unchecked}
	d.mu.Lock()
	from := ep.version
	write, reached := w.Replace, s.acls
	if s.verb == hns.Add {
		write, reached = w.Add, slices.Concat(ep.applied, s.acls)
	}
	d.mu.Unlock()
	version, err := write(ctx, ep.id, from, s.acls)
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.wroteLocked(ep, canonical(reached), s.acls, version, err)
}

// counted are the calls of a run for one endpoint: counted, with their errors
// kept.
type counted struct{ r *run }

func (c counted) GetEndpoint(ctx context.Context, id string) (e hns.Endpoint, err error) {
	err = c.r.quiet(hns.OpEndpointGet, func() (err error) {
		e, err = c.r.d.cfg.Client.GetEndpoint(ctx, id)
		return err
	})
	return e, err
}

func (c counted) AddACLs(ctx context.Context, id string, acls []hns.ACL) error {
	return c.r.quiet(hns.OpACLAdd, func() error { return c.r.d.cfg.Client.AddACLs(ctx, id, acls) })
}

func (c counted) ReplacePolicies(ctx context.Context, id string, policies []hns.EndpointPolicy) error {
	return c.r.quiet(hns.OpACLUpdate, func() error { return c.r.d.cfg.Client.ReplacePolicies(ctx, id, policies) })
}

// conflictLocked takes over what a conflict showed, in place of everything that
// was thought of the endpoint: its list, what others have there, its addresses,
// the references and pins, and the wish, which follows from them. d.mu must be
// held.
func (d *Dataplane) conflictLocked(ep *endpoint, reached []hns.ACL, c *versioned.Conflict) {
	if c.Written {
		d.conflicts.After++
		d.noteWriteLocked(subject{endpoint: ep.id})
		ep.applied = reached // what somebody else changed is the difference to this
		ep.repair = sameACLs(reached, d.wishLocked(ep))
	} else {
		d.conflicts.Before++
	}
	d.readLocked(c.Endpoint)
	d.renderLocked(ep)
}

func sameACLs(a, b []hns.ACL) bool {
	added, removed := diffACLs(a, b)
	return len(added)+len(removed) == 0
}

// wroteLocked records the outcome of an ACL write: after it the endpoint has
// reached, with this version, if sent was accepted. d.mu must be held.
func (d *Dataplane) wroteLocked(ep *endpoint, reached, sent []hns.ACL, version hns.Version, err error) (done bool, _ error) {
	var conflict *versioned.Conflict
	switch {
	case err == nil:
		ep.distrusted = false
		d.noteWriteLocked(subject{endpoint: ep.id})
		d.appliedLocked(ep, reached, version)
		return true, nil
	case hns.EndpointGone(err):
		d.goneLocked(ep.id)
		return false, nil
	case errors.As(err, &conflict):
		d.conflictLocked(ep, reached, conflict)
		return false, err
	case errors.Is(err, versioned.ErrUnread):
		return false, err
	case errors.Is(err, hns.ErrInvalid) && refusedObject(err) != hns.KindEndpoint:
		return false, d.refusedLocked(ep, sent, err)
	}
	d.noteWriteLocked(subject{endpoint: ep.id})
	// Whatever was refused, the list there may not be the one we know, nor are
	// the sets when one is missing. HNS does not say which.
	if refusedObject(err) == hns.KindSet {
		for _, n := range d.namesOfLocked(sent) {
			d.cache.Unknown(n)
		}
	}
	d.unknownLocked(ep, reached)
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

func canonical(acls []hns.ACL) []hns.ACL {
	out := make([]hns.ACL, len(acls))
	for i, a := range acls {
		out[i] = a.Canonical()
	}
	return out
}

// ----- what HNS refuses -----

// carefulStepsLocked plans for an endpoint of which HNS refused something: one
// Update with the shared rules and the policies that were accepted before, then
// one Add for each other policy. When even that Update is refused, none counts
// as accepted. d.mu must be held.
func (d *Dataplane) carefulStepsLocked(ep *endpoint) []step {
	have := countACLs(ep.applied)
	base := slices.Clone(ep.shared())
	var rest []step
	for _, g := range ep.wanted.groups {
		if ep.refused[g.key] == g.digest {
			continue
		}
		acls := g.acls(d.cache.Rejected)
		if !ep.distrusted && !slices.ContainsFunc(acls, func(a hns.ACL) bool { return have[a.Canonical()] == 0 }) {
			base = append(base, acls...)
		} else if added, _ := diffACLs(ep.applied, acls); len(added) > 0 {
			rest = append(rest, step{verb: hns.Add, acls: added})
		}
	}
	if added, removed := diffACLs(ep.applied, base); len(added) > 0 || len(removed) > 0 {
		return []step{{verb: hns.Update, acls: base}}
	}
	return rest
}

// refusedLocked deals with an ErrInvalid: the next steps are careful; what is
// refused then, alone, is remembered and left out until it changes. d.mu must
// be held.
func (d *Dataplane) refusedLocked(ep *endpoint, sent []hns.ACL, err error) error {
	if !ep.careful {
		ep.careful = true
		return nil
	}
	for _, g := range ep.wanted.groups {
		if ep.refused[g.key] != g.digest && len(sent) > 0 && isPart(g, sent) {
			ep.refused[g.key] = g.digest
			d.pinLocked(ep)
			return nil
		}
	}
	if !ep.distrusted && len(sent) > len(ep.shared()) {
		ep.distrusted = true
		return nil
	}
	ep.distrusted = false
	return fmt.Errorf("the rules that all policies share: %w", err)
}

// isPart reports whether the ACLs are all of one policy.
func isPart(g *group, acls []hns.ACL) bool {
	return !slices.ContainsFunc(acls, func(a hns.ACL) bool { return a.ID != ACLID(g.key) })
}
