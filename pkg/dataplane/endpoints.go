package dataplane

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// render computes what an endpoint should have, holds the sets that this
// needs, and queues or unqueues the update.
func (d *core) render(ep *endpoint) {
	defer d.progress.within("rendering", kindEndpoint, "", ep.id)()
	before := d.desired(ep)
	home := d.home(ep)
	ep.desired = desiredRules{}
	ep.owner = ""
	if len(home) > 0 {
		ep.owner = home[0].UID
		ep.bearFor(home[0])
		ep.desired = d.desiredBy(home)
	}
	var names []ipsets.Name
	for i := range ep.desired.groups {
		for _, r := range ep.desired.groups[i].rules {
			if !r.unused {
				names = append(names, r.names...)
			}
		}
	}
	if ep.desired.tiers != nil {
		names = ep.desired.tiers.names()
	}
	d.hold(ep, ipsets.RefRule, names)
	maps.DeleteFunc(ep.refused, func(key policy.Key, ref refusal) bool { // it changed, or is gone
		return !ep.desired.has(key, ref.digest)
	})
	d.forgetCompromises(ep)
	if !slices.Equal(before, d.desired(ep)) {
		ep.tries, ep.trial, ep.unlisted, ep.retryAt, ep.repair = 0, 0, 0, time.Time{}, false // due at once
		ep.state.replan()
		if ep.changedIn.To = d.generation; !ep.pending() {
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
	d.queue(ep)
}

// desired returns the list that the endpoint should have now.
func (d *core) desired(ep *endpoint) []hns.ACL { return ep.list(d.cache.Rejected) }

// desiredOf renders the policies that select a pod.
func (d *core) desiredOf(p *podState) desiredRules {
	p.closed = d.closedOn(p)
	w := desiredRules{shared: slices.Concat(d.cfg.BaseACLs, acl.Shared(p.isolated(), d.nodeAddrs))}
	for _, ps := range p.selected {
		w.groups = append(w.groups, d.group(ps, p))
	}
	return w
}

// group renders a policy for a pod that it selects; one that has no room on it has
// no rules. What no port of a pod
// has a part in is rendered once for all of them.
func (d *core) group(ps *policyState, p *podState) *group {
	if slices.Contains(p.closed, ps) {
		return &group{key: ps.Key, isolates: ps.Isolates}
	}
	if ps.group != nil {
		return ps.group
	}
	defer d.progress.within("rendering", kindPolicy, ps.Key.Namespace, ps.Key.Name)()
	g := renderGroup(&ps.Compiled, podPorts{p, ps}, d.id)
	if !ps.namesPorts() {
		ps.group = g
	}
	return g
}

// podPorts resolves the named ports of one policy for one pod.
type podPorts struct {
	pod    *podState
	policy *policyState
}

func (t podPorts) own(name string, proto policy.Protocol) (uint16, bool) {
	return t.pod.port(name, proto)
}

func (t podPorts) served(at reach) []servedPort { return t.policy.served(at) }

// steps returns the requests that the endpoint's update takes.
func (d *core) steps(ep *endpoint) []acl.Step {
	if ep.desired.tiers != nil {
		return d.tierSteps(ep)
	}
	c := acl.Change{
		Applied: ep.actual,
		Shared:  ep.shared(),
		Fresh:   ep.newborn(),
		Batch:   d.cfg.MaxBatchedACLs,
	}
	for _, g := range ep.desired.groups {
		if ep.refuses(g.key, g.digest) && g.digest != "" {
			continue
		}
		c.Groups = append(c.Groups, acl.Share{Key: g.key, Isolates: g.isolates, ACLs: g.acls(d.cache.Rejected)})
		for _, r := range g.rules {
			// One that names a set which HNS refuses does not stay: who left may still be in it.
			if r.unused && !slices.ContainsFunc(r.names, d.cache.Rejected) {
				c.Unused = append(c.Unused, r.acl)
			}
		}
	}
	steps := acl.Plan(c)
	if len(steps) > 0 && ep.changes > quietConflicts {
		// What was added is not shown, or not all. Another Add might be a second copy.
		return []acl.Step{{Verb: hns.Update, ACLs: c.Desired()}}
	}
	return steps
}

// queue puts an endpoint that differs from what is desired into the queue of
// pending updates and pins every set that it may need; one that does not differ
// leaves. An endpoint without an owner is only read again, never
// written.
func (d *core) queue(ep *endpoint) {
	pending := ep.updatable() && (!ep.known() || len(d.steps(ep)) > 0)
	switch {
	case pending && !ep.pending():
		d.join(ep)
		ep.since = d.now
		ep.retryAt = d.resume(ep)
	case !pending:
		d.started(ep)
		ep.leave()
		ep.tries, ep.changes, ep.lastErr, ep.trial, ep.repair = 0, 0, nil, 0, false
		ep.changedBy = policy.Key{}
		if ep.known() {
			ep.writtenFor, ep.exposed = ep.owner, false
		}
	}
	d.pin(ep)
}

// pin pins what a pending update may need: the sets of every list that
// may be on the endpoint and of the desired one.
func (d *core) pin(ep *endpoint) {
	var pins []ipsets.Name
	if ep.pending() || !ep.known() {
		pins = d.namesOf(append(slices.Clip(ep.possible()), d.desired(ep))...)
	}
	d.hold(ep, ipsets.RefPin, pins)
	d.cache.See(ep.id, ep.sight())
}

// waiting returns the local pods whose endpoint was not seen yet, by name.
func (d *core) waiting() []*podState {
	var out []*podState
	for _, p := range d.local {
		if len(d.byAddr[p.Addr]) == 0 {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *podState) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// applied records what is known to be on an endpoint, and the version that
// it has with it.
func (d *core) applied(ep *endpoint, acls []hns.ACL, version hns.Version) {
	d.sequence++
	ep.moved = d.sequence
	ep.actual, ep.version, ep.attempts = acls, version, nil
	d.hold(ep, ipsets.RefApplied, d.namesOf(acls))
}

// unknown records that a write has an unknown outcome: besides what may
// have been there, this list may be. Only pins hold its sets until the endpoint is
// read, which may never be: a list that is tried again is there once.
func (d *core) unknown(ep *endpoint, list []hns.ACL) {
	d.sequence++
	ep.moved = d.sequence
	ep.attempts = ep.possible()
	if !slices.ContainsFunc(ep.attempts, func(other []hns.ACL) bool { return slices.Equal(other, list) }) {
		ep.attempts = append(slices.Clip(ep.attempts), list)
	}
	ep.actual, ep.version = nil, ""
	ep.state.brokeOff()
	d.pin(ep)
	d.hold(ep, ipsets.RefApplied, nil)
}

// read takes over what was read of an endpoint, in place of everything
// that was thought of it; a new one gets a state. Where that was known, rules of
// ours that are others now are drift.
func (d *core) read(e hns.Endpoint) *endpoint {
	ep := d.endpoints[e.ID]
	if ep == nil {
		ep = &endpoint{
			id: e.ID, holds: map[ipsets.RefKind]map[ipsets.Name]bool{},
			refused: map[policy.Key]refusal{}, compromises: map[hns.ACL]compromise{},
			changedIn: state.Span{From: d.generation, To: d.generation}, // also when nothing of ours should be there and something is
		}
		d.endpoints[e.ID] = ep
		for _, addr := range ipv4(e.Addrs) {
			d.found = append(d.found, state.EndpointSeen{ID: e.ID, Addr: addr.String()})
		}
	}
	d.address(ep, ipv4(e.Addrs))
	ep.netns = e.Netns
	ours, foreign := d.spellings.Split(e)
	if ep.known() {
		d.foundACLs(ep, ours)
	}
	if lists := ep.possible(); len(lists) > 0 && !d.lacksBlock(ep, lists[0]) { // as it was last known
		ep.exposed = true
	}
	ep.exposed = ep.exposed && d.lacksBlock(ep, ours)
	if now := d.clock; ep.exposed && now.Sub(d.looks.lost) >= d.cfg.LookPeriod { // not each time that somebody undoes it
		d.looks.lost = now
	}
	ep.state.read()
	ep.blind = 0
	ep.seen = d.clock
	ep.foreign, ep.open = foreign, hns.DefaultsOf(foreign)
	d.applied(ep, ours, hns.Basis(e.Addrs, ours, ep.open))
	return ep
}

// address gives an endpoint its addresses, in place of those that it had.
func (d *core) address(ep *endpoint, addrs []netip.Addr) {
	for _, addr := range ep.addrs {
		d.byAddr[addr] = slices.DeleteFunc(d.byAddr[addr], func(o *endpoint) bool { return o == ep })
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
func (d *core) gone(id string) {
	ep := d.endpoints[id]
	if ep == nil {
		return
	}
	d.sequence++
	d.moved[id] = d.sequence
	delete(d.endpoints, id)
	delete(d.dirty, ep)
	if len(d.home(ep)) > 0 {
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
func (ep *endpoint) newborn() bool { return ep.writtenFor != ep.owner || ep.exposed }

// open reports whether a newborn endpoint lacks a block that it is to have, as
// far as is known.
func (d *core) open(ep *endpoint) bool {
	return ep.owner != "" && ep.newborn() && ep.state.rules != rulesShielded && len(d.unblocked(ep, ep.shield())) > 0
}

// lacksBlock reports whether a list leaves a direction open that the endpoint's desired
// rules close.
func (d *core) lacksBlock(ep *endpoint, list []hns.ACL) bool {
	if ep.desired.tiers != nil {
		return d.leavesOpen(ep, list, ep.shield())
	}
	return acl.LacksBlock(list, ep.desired.shared)
}

// unblocked returns what the endpoint lacks of shared rules, when a block is among
// it for a direction that nothing else of ours closes (the predecessor's blocks have
// other Ids); otherwise nothing. Of an endpoint whose list is not known that is all
// of them.
func (d *core) unblocked(ep *endpoint, shared []hns.ACL) []hns.ACL {
	if !d.leavesOpen(ep, ep.actual, shared) {
		return nil
	}
	added, _ := acl.Diff(ep.actual, shared)
	return added
}

// sight is what the rules of an endpoint see: those of one without a pod decide about
// nobody.
func (ep *endpoint) sight() ipsets.Sight {
	switch {
	case !ep.updatable():
		return ipsets.SeesNothing
	case !ep.known():
		return ipsets.SeesPinned
	}
	return ipsets.SeesApplied
}

// quietConflicts is how many conflicts in a row are nobody's concern.
const quietConflicts = 2
