package endpoints

import (
	"cmp"
	"maps"
	"slices"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// steps returns the requests that the endpoint's update takes.
func (d *State) steps(ep *Endpoint) []acl.Step {
	if ep.desired.Tiered {
		return d.tierSteps(ep)
	}
	out := ep.quarantined(d.cache.Rejected)
	c := acl.Change{
		Applied: ep.actual,
		Shared:  ep.shared(out),
		Fresh:   ep.newborn(),
		Batch:   d.cfg.MaxBatchedACLs,
	}
	for _, g := range ep.desired.Groups {
		if out[g.Key] {
			continue
		}
		c.Groups = append(c.Groups, acl.Share{Key: g.Key, Isolates: g.Isolates, ACLs: g.ACLs()})
		for _, r := range g.Rules {
			// One that names a rejected set does not stay: who left may still be in it.
			if r.Unused && !slices.ContainsFunc(r.Names, d.cache.Rejected) {
				c.Unused = append(c.Unused, r.ACL)
			}
		}
	}
	steps := acl.Plan(c)
	if len(steps) > 0 && ep.conflicts > quietConflicts {
		// What was added is not shown, or not all. Another Add might be a second copy.
		return []acl.Step{{Verb: hns.Update, ACLs: c.Desired()}}
	}
	return steps
}

// tierSteps returns the requests that the endpoint's update takes. Where rules only come,
// and fit into one Add, it is an Add; any other change is one Update. On an endpoint that
// is open a list that takes more than one Add may take long: it is closed before. The list is
// written whole, as a rule of one by halves might allow what a missing one would have blocked.
func (d *State) tierSteps(ep *Endpoint) []acl.Step {
	want := d.listFor(ep)
	added, removed := acl.Diff(ep.actual, want)
	whole := acl.Step{Verb: hns.Update, ACLs: want}
	switch {
	case len(removed) > 0, len(added) > 0 && ep.conflicts > quietConflicts:
		return []acl.Step{whole}
	case len(added) == 0:
		return nil
	case len(added) <= max(d.cfg.MaxBatchedACLs, 1):
		return []acl.Step{{Verb: hns.Add, ACLs: added}}
	}
	if shield := ep.shield(); d.Open(ep) {
		missing, _ := acl.Diff(ep.actual, shield)
		return []acl.Step{{Verb: hns.Add, ACLs: missing}, whole}
	}
	return []acl.Step{whole}
}

// Queue puts an endpoint that differs from what is desired into the queue of
// pending updates and pins every set that it may need; one that does not differ
// leaves. An endpoint without an owner is only read again, never
// written.
func (d *State) Queue(ep *Endpoint) {
	pending := ep.updatable() && (!ep.Known() || len(d.steps(ep)) > 0)
	switch {
	case pending && !ep.Pending():
		d.Join(ep)
		ep.since = d.now
		ep.retryAt = d.resume(ep)
	case !pending:
		d.started(ep)
		d.leave(ep)
		delete(d.fresh, ep.ID)
		ep.bisection = bisection{}
		maps.DeleteFunc(ep.rejected, func(_ policy.Key, q quarantine) bool { return q.trying }) // HNS took it
		ep.tries, ep.conflicts, ep.lastErr, ep.repair = 0, 0, nil, false
		if ep.Known() {
			ep.writtenFor, ep.exposed = ep.owner, false
		}
	}
	d.pin(ep)
}

// pin pins what a pending update may need: the sets of every list that
// may be on the endpoint and of the desired one.
func (d *State) pin(ep *Endpoint) {
	var pins []ipsets.Name
	if ep.Pending() || !ep.Known() {
		pins = d.namesOf(append(slices.Clip(ep.possible()), d.listFor(ep))...)
	}
	d.hold(ep, ipsets.RefPin, pins)
	d.cache.See(ep.ID, ep.sight())
	d.cache.Await(ep.ID, d.stale(ep)...)
}

// Waiting returns the local pods whose endpoint was not seen yet, by name.
func (d *State) Waiting() []*desired.PodState {
	var out []*desired.PodState
	for p := range d.desired.Locals() {
		if len(d.byAddr[p.Addr]) == 0 && !p.IsLost() {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *desired.PodState) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// sight returns which sets the rules of an endpoint name in HNS. An endpoint without a pod counts
// as naming none, because its rules affect no pod.
func (ep *Endpoint) sight() ipsets.Sight {
	switch {
	case !ep.updatable():
		return ipsets.SeesNothing
	case !ep.Known():
		return ipsets.SeesPinned
	}
	return ipsets.SeesApplied
}

// hold makes the endpoint hold exactly these sets with one kind of
// reference. The new ones are held before the old ones are let go. What rules in
// HNS turn out to see is fed from then on.
func (d *State) hold(ep *Endpoint, kind ipsets.RefKind, names []ipsets.Name) {
	ref := ipsets.Ref{Kind: kind, Owner: ep.ID}
	for _, n := range names {
		d.desired.Hold(n, ref)
	}
	was, is := ep.holds[kind], slices.Clone(names)
	slices.SortFunc(is, ipsets.Compare)
	ep.holds[kind] = slices.Clip(slices.Compact(is))
	held := func(n ipsets.Name) bool {
		_, is := slices.BinarySearchFunc(ep.holds[kind], n, ipsets.Compare)
		return is
	}
	var left []ipsets.Name
	for _, n := range was {
		if held(n) {
			continue
		}
		if now, ok := d.cache.Lookup(d.cache.ID(n)); !ok || !held(now) { // an orphan may have got its name
			left = append(left, n)
		}
	}
	d.desired.Release(ref, left...)
	d.desired.DefineOrphans()
}

// namesOf returns the sets that ACLs name, of those that the cache knows,
// each once.
func (d *State) namesOf(lists ...[]hns.ACL) []ipsets.Name {
	return namesOf(d.cache.Lookup, lists...)
}

// namesOf returns the sets that ACLs name, of those that lookup knows, each once.
func namesOf(lookup func(id string) (ipsets.Name, bool), lists ...[]hns.ACL) []ipsets.Name {
	var out []ipsets.Name
	seen := map[string]bool{}
	for _, acls := range lists {
		for _, a := range acls {
			for _, id := range a.SetIDs() {
				if seen[id] {
					continue
				}
				seen[id] = true
				if n, ok := lookup(id); ok {
					out = append(out, n)
				}
			}
		}
	}
	return out
}
