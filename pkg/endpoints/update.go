package endpoints

import (
	"maps"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// steps returns the requests of the endpoint's update.
func (d *Table) steps(ep *Tracked) []acl.Step {
	c := acl.Change{
		Actual: ep.Actual, Desired: ep.list, Batch: d.cfg.MaxBatchedACLs,
		Whole: ep.conflicts > quietConflicts, // HNS does not show all ACLs that were added
	}
	for _, a := range ep.desired.Unused {
		// A rule that names a rejected set does not stay: pods that left the set may still be in it.
		if !slices.ContainsFunc(a.Names, d.cache.Rejected) {
			c.Unused = append(c.Unused, a.ACL)
		}
	}
	if ep.Open() {
		c.Shield = ep.shield()
	}
	return acl.Plan(c)
}

// Queue puts an endpoint whose actual rules differ from the desired ones, or are unknown, into the
// queue of pending updates, and pins every set that it may need. Any other endpoint leaves the queue.
// An endpoint without an owner is only read again, never
// written.
func (d *Table) Queue(ep *Tracked) {
	pending := ep.owner != "" && (!ep.Known() || len(d.steps(ep)) > 0)
	switch {
	case pending && !ep.Pending():
		d.Join(ep)
		ep.since = d.now
		ep.retryAt = time.Time{}
		if ep.repair {
			ep.retryAt = d.resume(ep)
		}
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
func (d *Table) pin(ep *Tracked) {
	var pins []ipsets.Name
	if ep.Pending() || !ep.Known() {
		pins = namesOf(d.cache.Lookup, append(slices.Clip(ep.possible()), ep.list)...)
	}
	d.hold(ep, ipsets.RefPin, pins)
	sight := ipsets.SeesActual
	switch {
	case ep.owner == "": // its rules affect no pod
		sight = ipsets.SeesNothing
	case !ep.Known():
		sight = ipsets.SeesPinned
	}
	d.cache.See(ep.ID, sight, d.stale(ep)...)
}

// hold makes the endpoint hold exactly these sets with one kind of reference. It holds the new
// ones before it releases the old ones, and defines the orphaned sets that rules in HNS turn
// out to name.
func (d *Table) hold(ep *Tracked, kind ipsets.RefKind, names []ipsets.Name) {
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
		if now, ok := d.cache.Lookup(d.cache.ID(n)); !ok || !held(now) { // unless it is an orphan that was renamed
			left = append(left, n)
		}
	}
	d.desired.Release(ref, left...)
	if orphans := d.cache.TakeOrphans(); len(orphans) > 0 {
		d.desired.DefineOrphans(orphans)
	}
}

// namesOf returns the sets that ACLs name and lookup finds, each once.
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
