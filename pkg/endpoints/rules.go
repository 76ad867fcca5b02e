package endpoints

import (
	"slices"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
)

// relist computes the list that the endpoint should have now. Policies that HNS rejects, or that
// name rejected sets, are quarantined in it. The shield names no set and no policy.
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
	ep.list = ep.listWithout(ep.out)
	ep.shield = ep.shared(ep.out)
	for _, dir := range policy.Directions {
		block := acl.Isolation(dir).ACL
		if ep.desired.Tiered {
			block.Priority = hns.PriorityShield
		}
		if slices.ContainsFunc(ep.desired.ACLs, func(a *acl.SourcedACL) bool { return a.IsBlock() && a.Direction == block.Direction }) {
			ep.shield = append(ep.shield, block)
		}
	}
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
	return slices.DeleteFunc(slices.Clone(ep.shield), func(a hns.ACL) bool { return !essential(a) })
}

// leavesOpen reports whether a list leaves a direction open that one of the shared rules closes: it
// neither blocks everything there, nor has every desired ACL that blocks.
func (ep *Tracked) leavesOpen(list, shared []hns.ACL) bool {
	return slices.ContainsFunc(shared, func(block hns.ACL) bool {
		closes := func(a hns.ACL) bool { return a.Direction == block.Direction && acl.BlocksAll(a) }
		if !closes(block) || slices.ContainsFunc(list, closes) {
			return false
		}
		have := acl.Count(list)
		return slices.ContainsFunc(ep.desired.Without(ep.out), func(a *acl.SourcedACL) bool {
			return a.Direction == block.Direction && a.IsBlock() && have[a.Canonical()] == 0
		})
	})
}
