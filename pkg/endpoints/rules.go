package endpoints

import (
	"slices"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
)

// listFor returns the list that the endpoint should have now.
func (d *State) listFor(ep *Endpoint) []hns.ACL { return ep.list(d.cache.Rejected) }

// list returns the complete list of our ACLs that should be on the endpoint,
// with the policies quarantined that name rejected sets or are rejected.
func (ep *Endpoint) list(rejected func(ipsets.Name) bool) []hns.ACL {
	return ep.listWithout(ep.quarantined(rejected))
}

// listWithout returns the complete list of our ACLs with some policies quarantined.
func (ep *Endpoint) listWithout(out keys) []hns.ACL {
	acls := ep.shared(out)
	for r := range ep.desired.Without(out) {
		acls = append(acls, r.ACL)
	}
	return acls
}

// shared returns the rules that are no policy's own: node, block, and where the
// CNI gives none, the allow-all pair that any first ACL makes necessary. An endpoint that its
// CNI made closed has the pair also where no policy selects its pod. The slice is the caller's.
func (ep *Endpoint) shared(out keys) []hns.ACL {
	if len(ep.desired.Shared) == 0 && !ep.desired.Tiered && (ep.owner == "" || !ep.open.Closed) {
		return nil
	}
	shared := ep.desired.Shared
	if len(out) > 0 {
		shared = slices.DeleteFunc(slices.Clone(shared), func(a hns.ACL) bool { return out[acl.RuleKey(a)] && !essential(a) })
	}
	return slices.Concat(acl.MissingDefaults(ep.open, shared), shared)
}

// shield returns the rules that close the endpoint in every direction in which
// something is to be blocked. They name no set and no policy.
func (ep *Endpoint) shield() []hns.ACL {
	out := ep.shared(ep.quarantined(func(ipsets.Name) bool { return false }))
	if !ep.desired.Tiered {
		return out
	}
	for _, a := range []hns.ACL{{ID: acl.IDBlockIn, Direction: hns.In}, {ID: acl.IDBlockOut, Direction: hns.Out}} {
		if ep.desired.Blocks(a.Direction) {
			a.Action, a.RuleType, a.Priority = hns.Block, hns.Switch, hns.PriorityShield
			out = append(out, a)
		}
	}
	return out
}

// essentials returns the shared rules that are essential.
func (ep *Endpoint) essentials() []hns.ACL {
	return slices.DeleteFunc(ep.shield(), func(a hns.ACL) bool { return !essential(a) })
}

// leavesOpen reports whether a list leaves a direction open that shared rules close. One
// with a list of tiers is closed as far as it should be by the rules of that, too.
func (d *State) leavesOpen(ep *Endpoint, list, shared []hns.ACL) bool {
	if !ep.desired.Tiered {
		return acl.LacksBlock(list, shared)
	}
	closed := map[hns.Direction]bool{hns.In: true, hns.Out: true} // the list has every rule that blocks, or one that blocks everything
	have := acl.Count(list)
	for r := range ep.desired.Without(ep.quarantined(d.cache.Rejected)) {
		if r.IsBlock() && have[r.ACL.Canonical()] == 0 {
			closed[r.ACL.Direction] = false
		}
	}
	for _, a := range list {
		closed[a.Direction] = closed[a.Direction] || acl.BlocksAll(a)
	}
	return slices.ContainsFunc(shared, func(a hns.ACL) bool { return acl.BlocksAll(a) && !closed[a.Direction] })
}
