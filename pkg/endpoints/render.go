package endpoints

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// Render applies the effects of a change of the desired state: it starts the search for the
// endpoints of new pods, marks endpoints to be read again, and renders those whose rules may have
// changed, in order of their GUIDs, because the order decides their turns in the queue.
func (d *Table) Render(came desired.Effects) {
	for _, p := range came.Came {
		d.seek(p)
	}
	for addr := range came.Check {
		for _, ep := range d.byAddr[addr] {
			ep.state.check = true
		}
	}
	for addr := range came.Changed {
		for _, ep := range d.byAddr[addr] {
			d.dirty[ep] = true
		}
	}
	if came.All {
		for _, ep := range d.byID {
			d.dirty[ep] = true
		}
	}
	for _, ep := range slices.SortedFunc(maps.Keys(d.dirty), func(a, b *Tracked) int { return cmp.Compare(a.ID, b.ID) }) {
		d.render(ep)
	}
	clear(d.dirty)
}

// MarkHolders marks the endpoints whose rules name a set, desired or actual.
func (d *Table) MarkHolders(n ipsets.Name) {
	for _, ref := range d.cache.Refs(n) {
		if ep := d.byID[ref.Owner]; ep != nil && (ref.Kind == ipsets.RefRule || ref.Kind == ipsets.RefActual) {
			d.dirty[ep] = true
		}
	}
}

// render computes the desired rules of an endpoint, holds the sets that they
// name, and queues or unqueues the update.
func (d *Table) render(ep *Tracked) {
	d.relist(ep) // other defaults of the CNI, or sets that HNS rejects now, are no change of the desired rules
	before := ep.list
	home := d.desired.Home(ep.addrs)
	ep.desired = acl.List{}
	ep.owner = ""
	if len(home) > 0 {
		ep.owner = home[0].UID
		if ep.bornFor == "" {
			ep.bearFor(home[0])
		}
		ep.desired = d.desired.ListOf(home, len(ep.ipv6) > 0)
	}
	var names []ipsets.Name
	for _, a := range ep.desired.Without(nil) { // without the ACLs that no packet reaches
		names = append(names, a.Names...)
	}
	d.hold(ep, ipsets.RefRule, names)
	if len(ep.rejected) > 0 {
		ep.forgetChanged()
	}
	if d.relist(ep); !slices.Equal(before, ep.list) {
		ep.tries, ep.retryAt, ep.repair = 0, time.Time{}, false // due immediately
		if ep.Bisecting() {
			ep.endBisection()
		}
		if ep.changedIn.To = d.generation; !ep.Pending() {
			ep.changedIn.From = d.generation
		}
		if ep.Pending() && ep.flow != d.flowOf(ep) {
			d.Join(ep)
		}
	}
	d.Queue(ep)
}

// relist computes the list that the endpoint should have now. Policies that HNS rejects, or that
// name rejected sets, are quarantined in it.
func (d *Table) relist(ep *Tracked) {
	ep.out = map[policy.Key]bool{}
	for key, q := range ep.rejected {
		if !q.trying {
			ep.out[key] = true
		}
	}
	for _, a := range ep.desired.ACLs {
		if slices.ContainsFunc(a.Names, d.cache.Rejected) {
			ep.out[a.Owner()] = true
		}
	}
	if ep.list = ep.listWithout(ep.out); slices.Equal(ep.list, ep.Actual) {
		ep.list = ep.Actual // once in memory
	}
}

// shield returns the ACLs that close the endpoint, and name no set and no policy. The slice is the caller's.
func (ep *Tracked) shield() []hns.ACL {
	acls := ep.shared(ep.out)
	for _, dir := range policy.Directions {
		block := acl.Isolation[dir].ACL
		if ep.desired.Tiered {
			block.Priority = hns.PriorityShield
		}
		if slices.ContainsFunc(ep.desired.ACLs, func(a *acl.SourcedACL) bool { return a.Action == hns.Block && a.Direction == block.Direction }) {
			acls = append(acls, block)
		}
	}
	return acls
}

// listWithout returns the complete list of our ACLs with some policies quarantined.
func (ep *Tracked) listWithout(out map[policy.Key]bool) []hns.ACL {
	acls := ep.shared(out)
	for _, a := range ep.desired.Without(out) {
		acls = append(acls, a.ACL)
	}
	return acls
}

// shared returns the rules that belong to no policy: base rules, the node's rule, and where the CNI
// gives none, the allow-all pair, because any first ACL makes an endpoint deny by default. An endpoint
// that its CNI made closed has the pair even if no policy selects its pod. The slice is the caller's.
func (ep *Tracked) shared(out map[policy.Key]bool) []hns.ACL {
	shared := ep.desired.Shared
	if len(shared)+len(ep.desired.ACLs) == 0 && (ep.owner == "" || !ep.open.Closed) {
		return nil
	}
	if len(out) > 0 {
		shared = slices.DeleteFunc(slices.Clone(shared), func(a hns.ACL) bool { return out[acl.RuleKey(a)] })
	}
	return slices.Concat(acl.MissingDefaults(ep.open, shared), shared)
}

// essentials returns the rules of the shield that are essential.
func (ep *Tracked) essentials() []hns.ACL {
	return slices.DeleteFunc(ep.shield(), func(a hns.ACL) bool { return !essential(a) })
}

// leavesOpen reports whether a list leaves a direction open that one of the shared rules closes: it
// neither blocks everything there, nor has every desired ACL that blocks.
func (ep *Tracked) leavesOpen(list, shared []hns.ACL) bool {
	return slices.ContainsFunc(shared, func(block hns.ACL) bool {
		closes := func(a hns.ACL) bool { return a.Direction == block.Direction && acl.BlocksAll(a) }
		if !closes(block) || slices.ContainsFunc(list, closes) {
			return false
		}
		var blocks []hns.ACL
		for _, a := range ep.desired.Without(ep.out) {
			if a.Direction == block.Direction && a.Action == hns.Block {
				blocks = append(blocks, a.ACL)
			}
		}
		missing, _ := acl.Diff(list, blocks)
		return len(missing) > 0
	})
}
