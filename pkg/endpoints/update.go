package endpoints

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/progress"
	"github.com/winnpm/winnpm/pkg/render"
	"github.com/winnpm/winnpm/pkg/state"
)

// render computes what an endpoint should have, holds the sets that this
// needs, and queues or unqueues the update.
func (d *State) render(ep *Endpoint) {
	defer d.progress.Within("rendering", progress.Endpoint, "", ep.ID)()
	before := d.listFor(ep)
	home := d.desired.Home(ep.addrs)
	ep.desired = render.Rules{}
	ep.owner = ""
	if len(home) > 0 {
		ep.owner = home[0].UID
		ep.bearFor(home[0])
		ep.desired = d.desired.RulesOf(home)
	}
	var names []ipsets.Name
	for i := range ep.desired.Groups {
		for _, r := range ep.desired.Groups[i].Rules {
			if !r.Unused {
				names = append(names, r.Names...)
			}
		}
	}
	if ep.desired.Tiers != nil {
		names = ep.desired.Tiers.Names()
	}
	d.hold(ep, ipsets.RefRule, names)
	maps.DeleteFunc(ep.refused, func(key policy.Key, ref refusal) bool { // it changed, or is gone
		return !ep.desired.Has(key, ref.digest)
	})
	d.forgetCompromises(ep)
	if !slices.Equal(before, d.listFor(ep)) {
		ep.tries, ep.trial, ep.unlisted, ep.retryAt, ep.repair = 0, 0, 0, time.Time{}, false // due at once
		ep.state.replan()
		if ep.changedIn.To = d.generation; !ep.Pending() {
			ep.changedIn.From = d.generation
		}
		by := d.dirty[ep]
		if len(by) > 0 {
			ep.changedBy = by[0]
		}
		if len(by) > 0 || d.cause(ep).subqueue() != ep.subqueue {
			d.rejoin(ep)
		}
	}
	d.Queue(ep)
}

// listFor returns the list that the endpoint should have now.
func (d *State) listFor(ep *Endpoint) []hns.ACL { return ep.list(d.cache.Rejected) }

// steps returns the requests that the endpoint's update takes.
func (d *State) steps(ep *Endpoint) []acl.Step {
	if ep.desired.Tiers != nil {
		return d.tierSteps(ep)
	}
	c := acl.Change{
		Applied: ep.Actual,
		Shared:  ep.shared(),
		Fresh:   ep.newborn(),
		Batch:   d.cfg.MaxBatchedACLs,
	}
	for _, g := range ep.desired.Groups {
		if ep.Refuses(g.Key, g.Digest) && g.Digest != "" {
			continue
		}
		c.Groups = append(c.Groups, acl.Share{Key: g.Key, Isolates: g.Isolates, ACLs: g.ACLs(d.cache.Rejected)})
		for _, r := range g.Rules {
			// One that names a set which HNS refuses does not stay: who left may still be in it.
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
		ep.leave()
		ep.tries, ep.conflicts, ep.lastErr, ep.trial, ep.repair = 0, 0, nil, 0, false
		ep.changedBy = policy.Key{}
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
}

// Waiting returns the local pods whose endpoint was not seen yet, by name.
func (d *State) Waiting() []*desired.PodState {
	var out []*desired.PodState
	for p := range d.desired.Locals() {
		if len(d.byAddr[p.Addr]) == 0 {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *desired.PodState) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// applied records what is known to be on an endpoint, and the version that
// it has with it.
func (d *State) applied(ep *Endpoint, acls []hns.ACL, version hns.Version) {
	ep.moved = d.writes.Next()
	ep.Actual, ep.Version, ep.attempts = acls, version, nil
	d.hold(ep, ipsets.RefApplied, d.namesOf(acls))
}

// unknown records that a write has an unknown outcome: besides what may
// have been there, this list may be. Only pins hold its sets until the endpoint is
// read, which may never be: a list that is tried again is there once.
func (d *State) unknown(ep *Endpoint, list []hns.ACL) {
	ep.moved = d.writes.Next()
	ep.attempts = ep.possible()
	if !slices.ContainsFunc(ep.attempts, func(other []hns.ACL) bool { return slices.Equal(other, list) }) {
		ep.attempts = append(slices.Clip(ep.attempts), list)
	}
	ep.Actual, ep.Version = nil, ""
	ep.state.brokeOff()
	d.pin(ep)
	d.hold(ep, ipsets.RefApplied, nil)
}

// read takes over what was read of an endpoint, in place of everything
// that was thought of it; a new one gets a state. Where that was known, rules of
// ours that are others now are drift.
func (d *State) read(e hns.Endpoint) *Endpoint {
	ep := d.byID[e.ID]
	if ep == nil {
		ep = &Endpoint{
			ID: e.ID, holds: map[ipsets.RefKind]map[ipsets.Name]bool{},
			refused: map[policy.Key]refusal{}, compromises: map[hns.ACL]compromise{},
			changedIn: state.Span{From: d.generation, To: d.generation}, // also when nothing of ours should be there and something is
		}
		d.byID[e.ID] = ep
		for _, addr := range desired.IPv4(e.Addrs) {
			d.found = append(d.found, state.EndpointSeen{ID: e.ID, Addr: addr.String()})
		}
	}
	d.address(ep, desired.IPv4(e.Addrs))
	ep.netns = e.Netns
	ours, foreign := d.spellings.Split(e)
	if ep.Known() {
		d.foundACLs(ep, ours)
	}
	if lists := ep.possible(); len(lists) > 0 && !d.lacksBlock(ep, lists[0]) { // as it was last known
		ep.exposed = true
	}
	ep.exposed = ep.exposed && d.lacksBlock(ep, ours)
	if now := d.clock; ep.exposed && now.Sub(d.lost) >= d.cfg.LookPeriod { // not each time that somebody undoes it
		d.lost = now
	}
	ep.state.read()
	ep.blind = 0
	ep.seen = d.clock
	ep.foreign, ep.open = foreign, hns.DefaultsOf(foreign)
	d.applied(ep, ours, hns.Basis(e.Addrs, ours, ep.open))
	return ep
}

// address gives an endpoint its addresses, in place of those that it had.
func (d *State) address(ep *Endpoint, addrs []netip.Addr) {
	for _, addr := range ep.addrs {
		d.byAddr[addr] = slices.DeleteFunc(d.byAddr[addr], func(o *Endpoint) bool { return o == ep })
		if len(d.byAddr[addr]) == 0 {
			delete(d.byAddr, addr)
		}
	}
	ep.addrs = addrs
	for _, addr := range addrs {
		d.byAddr[addr] = append(d.byAddr[addr], ep)
	}
}

// gone drops the state of an endpoint that no longer exists.
func (d *State) gone(id string) {
	ep := d.byID[id]
	if ep == nil {
		return
	}
	d.writes.Next()
	d.writes.Move(id)
	delete(d.byID, id)
	delete(d.dirty, ep)
	delete(d.members[ep.subqueue], ep)
	if len(d.desired.Home(ep.addrs)) > 0 {
		d.listing.wanted, d.listing.retry = true, backoff.Retry{} // its pod runs on: another endpoint may be there
	}
	d.address(ep, nil)
	for kind := range ep.holds {
		d.hold(ep, kind, nil)
	}
	d.cache.See(id, ipsets.SeesApplied)
}

// newborn reports whether the endpoint was never right for its pod, or lost what
// made it so: then the block goes first.
func (ep *Endpoint) newborn() bool { return ep.writtenFor != ep.owner || ep.exposed }

// Open reports whether a newborn endpoint lacks a block that it is to have, as
// far as is known.
func (d *State) Open(ep *Endpoint) bool {
	return ep.owner != "" && ep.newborn() && ep.state.rules != rulesShielded && len(d.Unblocked(ep, ep.shield())) > 0
}

// lacksBlock reports whether a list leaves a direction open that the endpoint's desired
// rules close.
func (d *State) lacksBlock(ep *Endpoint, list []hns.ACL) bool {
	if ep.desired.Tiers != nil {
		return d.leavesOpen(ep, list, ep.shield())
	}
	return acl.LacksBlock(list, ep.desired.Shared)
}

// Unblocked returns what the endpoint lacks of shared rules, when a block is among
// it for a direction that nothing else of ours closes (the predecessor's blocks have
// other Ids); otherwise nothing. Of an endpoint whose list is not known that is all
// of them.
func (d *State) Unblocked(ep *Endpoint, shared []hns.ACL) []hns.ACL {
	if !d.leavesOpen(ep, ep.Actual, shared) {
		return nil
	}
	added, _ := acl.Diff(ep.Actual, shared)
	return added
}

// sight is what the rules of an endpoint see: those of one without a pod decide about
// nobody.
func (ep *Endpoint) sight() ipsets.Sight {
	switch {
	case !ep.updatable():
		return ipsets.SeesNothing
	case !ep.Known():
		return ipsets.SeesPinned
	}
	return ipsets.SeesApplied
}
