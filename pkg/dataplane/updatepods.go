package dataplane

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
)

// updatePods works through the queue of pending updates. One that fails stays
// and does not stop the others; one whose sets are not ready waits for them.
func (r *run) updatePods(ctx context.Context) {
	d := r.d
	d.mu.Lock()
	var due []string
	for _, ep := range d.dueLocked(r.started) {
		if ep.known {
			due = append(due, ep.id)
		}
	}
	d.mu.Unlock()
	for _, id := range due {
		if ctx.Err() != nil {
			return
		}
		if err := r.updatePod(ctx, id); err != nil {
			d.mu.Lock()
			if ep := d.endpoints[id]; ep != nil {
				ep.fail(err, r.started)
				if errors.Is(err, errSetsNotReady) && !d.sets.at.IsZero() {
					ep.retryAt = d.sets.at
				}
			}
			d.mu.Unlock()
		}
	}
}

// errChanged: the endpoint is not what the steps were planned from.
var errChanged = fmt.Errorf("policies: %w", hns.ErrConflict)

// maxChanges is how often an endpoint that somebody else keeps changing is
// planned anew in one round.
const maxChanges = 3

// errSetsNotReady: an ACL waits for a set that could not be written.
var errSetsNotReady = errors.New("waits for a set that could not be written")

// updatePod brings one endpoint to its wish. The steps are planned anew when
// one did not do what it was planned for: the re-read of an Update showed
// something else than was known, or HNS refused a rule, which is worked around
// one policy at a time.
func (r *run) updatePod(ctx context.Context, id string) error {
	for changes := 0; ; {
		ep, steps, ready := r.nextSteps(id)
		switch {
		case len(steps) == 0:
			return nil
		case !ready:
			return errSetsNotReady
		}
		for _, s := range steps {
			done, err := r.step(ctx, ep, s)
			if errors.Is(err, errChanged) && changes < maxChanges {
				changes++
				break
			}
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
	if ep == nil || ep.queued == 0 || !ep.known {
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
	added, _ := diffACLs(ep.applied, all)
	return !slices.ContainsFunc(d.namesOfLocked(added), func(n ipsets.Name) bool { return !d.cache.Ready(n) })
}

// step makes one request for an endpoint and records what is there then. done
// is false when the rest has to be planned anew.
func (r *run) step(ctx context.Context, ep *endpoint, s step) (done bool, err error) {
	if s.verb == hns.Add {
		return r.add(ctx, ep, s.acls)
	}
	return r.replace(ctx, ep, s.acls)
}

// add appends rules.
func (r *run) add(ctx context.Context, ep *endpoint, acls []hns.ACL) (done bool, err error) {
	d := r.d
	err = r.quiet(hns.OpACLAdd, func() error { return d.cfg.Client.AddACLs(ctx, ep.id, acls) })
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.wroteLocked(ep, slices.Concat(ep.applied, acls), acls, err)
}

// replace writes the complete list of ours beside what everybody else has. An
// Update replaces all policies of every owner, so the endpoint is read right
// before and theirs are sent back byte for byte.
func (r *run) replace(ctx context.Context, ep *endpoint, acls []hns.ACL) (done bool, err error) {
	d := r.d
	var e hns.Endpoint
	err = r.quiet(hns.OpEndpointGet, func() (err error) {
		e, err = d.cfg.Client.GetEndpoint(ctx, ep.id)
		return err
	})
	if hns.EndpointGone(err) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.goneLocked(ep.id)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	foreign, same := d.sameAsRead(ep, e)
	if !same {
		return false, fmt.Errorf("endpoint %s: %w", ep.id, errChanged)
	}
	policies := slices.Clone(foreign)
	for _, a := range acls {
		policies = append(policies, hns.NewACLPolicy(a))
	}
	err = r.quiet(hns.OpACLUpdate, func() error { return d.cfg.Client.ReplacePolicies(ctx, ep.id, policies) })
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.wroteLocked(ep, acls, acls, err)
}

// sameAsRead compares a fresh read with what the steps were planned from and
// returns the others' policies. What is not the same is taken over.
func (d *Dataplane) sameAsRead(ep *endpoint, e hns.Endpoint) (foreign []hns.EndpointPolicy, same bool) {
	ours, foreign := e.Split()
	d.mu.Lock()
	defer d.mu.Unlock()
	if sameACLs(ours, ep.applied) && slices.EqualFunc(foreign, ep.foreign, samePolicy) && slices.Equal(ipv4(e.Addrs), ep.addrs) {
		return foreign, true
	}
	d.readLocked(e)
	d.renderLocked(ep)
	return nil, false
}

func samePolicy(a, b hns.EndpointPolicy) bool {
	return a.Type == b.Type && string(a.Settings) == string(b.Settings)
}

func sameACLs(a, b []hns.ACL) bool {
	added, removed := diffACLs(a, b)
	return len(added)+len(removed) == 0
}

// wroteLocked records the outcome of an ACL write: after it the endpoint has
// reached, if sent was accepted. d.mu must be held.
func (d *Dataplane) wroteLocked(ep *endpoint, reached, sent []hns.ACL, err error) (done bool, _ error) {
	switch {
	case err == nil:
		ep.distrusted = false
		d.noteWriteLocked(subject{endpoint: ep.id})
		d.appliedLocked(ep, canonical(reached))
		return true, nil
	case hns.EndpointGone(err):
		d.goneLocked(ep.id)
		return false, nil
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
	d.unknownLocked(ep, canonical(reached))
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
func isPart(g group, acls []hns.ACL) bool {
	return !slices.ContainsFunc(acls, func(a hns.ACL) bool { return a.ID != ACLID(g.key) })
}
