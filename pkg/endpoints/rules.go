package endpoints

import (
	"slices"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// listFor returns the list that the endpoint should have now. Policies that HNS rejects, or that
// name rejected sets, are quarantined in it.
func (d *State) listFor(ep *Endpoint) []hns.ACL {
	return ep.listWithout(ep.quarantined(d.cache.Rejected))
}

// listWithout returns the complete list of our ACLs with some policies quarantined.
func (ep *Endpoint) listWithout(out keys) []hns.ACL {
	acls := ep.shared(out)
	for _, a := range ep.desired.Without(out) {
		acls = append(acls, a.ACL)
	}
	return acls
}

// shared returns the rules that belong to no policy: base rules, the node's rule, and where the CNI
// gives none, the allow-all pair, because any first ACL makes an endpoint deny by default. An endpoint
// that its CNI made closed has the pair even if no policy selects its pod. The slice is the caller's.
func (ep *Endpoint) shared(out keys) []hns.ACL {
	shared := ep.desired.Shared
	if len(shared)+len(ep.desired.ACLs) == 0 && (ep.owner == "" || !ep.open.Closed) {
		return nil
	}
	if len(out) > 0 {
		shared = slices.DeleteFunc(slices.Clone(shared), func(a hns.ACL) bool { return out[acl.RuleKey(a)] })
	}
	return slices.Concat(acl.MissingDefaults(ep.open, shared), shared)
}

// shield returns the rules that close the endpoint in every direction in which a desired rule
// blocks. They name no set and no policy.
func (ep *Endpoint) shield() []hns.ACL {
	out := ep.shared(ep.quarantined(func(ipsets.Name) bool { return false }))
	for _, dir := range policy.Directions {
		block := acl.Isolation(dir).ACL
		if ep.desired.Tiered {
			block.Priority = hns.PriorityShield
		}
		if slices.ContainsFunc(ep.desired.ACLs, func(a *acl.ACL) bool { return a.IsBlock() && a.Direction == block.Direction }) {
			out = append(out, block)
		}
	}
	return out
}

// essentials returns the rules of the shield that are essential.
func (ep *Endpoint) essentials() []hns.ACL {
	return slices.DeleteFunc(ep.shield(), func(a hns.ACL) bool { return !essential(a) })
}

// leavesOpen reports whether a list leaves a direction open that shared rules close.
func (d *State) leavesOpen(ep *Endpoint, list, shared []hns.ACL) bool {
	return slices.ContainsFunc(shared, func(a hns.ACL) bool { return acl.BlocksAll(a) && !d.closed(ep, list, a.Direction) })
}

// closed reports whether a list closes a direction as far as desired: it blocks everything, or
// has every desired ACL that blocks.
func (d *State) closed(ep *Endpoint, list []hns.ACL, dir hns.Direction) bool {
	if slices.ContainsFunc(list, func(a hns.ACL) bool { return a.Direction == dir && acl.BlocksAll(a) }) {
		return true
	}
	have := acl.Count(list)
	return !slices.ContainsFunc(ep.desired.Without(ep.quarantined(d.cache.Rejected)), func(a *acl.ACL) bool {
		return a.Direction == dir && a.IsBlock() && have[a.Canonical()] == 0
	})
}
