package endpoints

import (
	"slices"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/render"
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
	for _, g := range ep.desired.Groups {
		if !out[g.Key] {
			acls = append(acls, g.ACLs()...)
		}
	}
	for _, r := range ep.tierRules(out) {
		acls = append(acls, r.ACL)
	}
	return acls
}

// shared returns the rules that are no policy's own: node, block, and where the
// CNI gives none, the allow-all pair that any first ACL makes necessary. An endpoint that its
// CNI made closed has the pair also where no policy selects its pod. The slice is the caller's.
func (ep *Endpoint) shared(out keys) []hns.ACL {
	if len(ep.desired.Shared) == 0 && ep.desired.Tiers == nil && (ep.owner == "" || !ep.open.Closed) {
		return nil
	}
	shared := ep.desired.Shared
	if len(out) > 0 {
		shared = slices.DeleteFunc(slices.Clone(shared), func(a hns.ACL) bool { return out[render.RuleKey(a)] && !essential(a) })
	}
	return slices.Concat(acl.MissingDefaults(ep.open, shared), shared)
}

// everything returns a rule that matches all packets of its direction.
func everything(a hns.ACL) hns.ACL {
	a.Protocols, a.LocalPorts, a.RemotePorts, a.LocalAddresses, a.RemoteAddresses = "", "", "", "", ""
	return a
}

// tierRules returns the rules that should be on an endpoint with a list of tiers, in order and
// without duplicates. It omits all rules after one that blocks everything, because no packet
// reaches them.
func (ep *Endpoint) tierRules(out keys) (rules []render.TierRule) {
	if ep.desired.Tiers == nil {
		return nil
	}
	ended, seen := map[hns.Direction]bool{}, map[hns.ACL]bool{}
	for _, r := range ep.desired.Tiers.Rules {
		switch {
		case ended[r.ACL.Direction], out[r.Owner()] && !r.IsBlock():
			continue
		case out[r.Owner()]:
			r.ACL = everything(r.ACL)
		}
		is := r.ACL
		if r.IsBlock() {
			is.ID = "" // several policies may deny the same traffic
		}
		if seen[is] {
			continue
		}
		seen[is] = true
		ended[r.ACL.Direction] = r.BlocksAll()
		rules = append(rules, r)
	}
	return rules
}

// shield returns the rules that close the endpoint in every direction in which
// something is to be blocked. They name no set and no policy.
func (ep *Endpoint) shield() []hns.ACL {
	out := ep.shared(ep.quarantined(func(ipsets.Name) bool { return false }))
	if ep.desired.Tiers == nil {
		return out
	}
	blocks := ep.desired.Tiers.Blocks()
	for _, a := range []hns.ACL{{ID: acl.IDBlockIn, Direction: hns.In}, {ID: acl.IDBlockOut, Direction: hns.Out}} {
		if blocks[a.Direction] {
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
	if ep.desired.Tiers == nil {
		return acl.LacksBlock(list, shared)
	}
	closed := covered(list, ep.tierRules(ep.quarantined(d.cache.Rejected)))
	return slices.ContainsFunc(shared, func(a hns.ACL) bool { return acl.BlocksAll(a) && !closed[a.Direction] })
}

// covered reports the directions of which a list has every rule that blocks of others,
// or one that blocks everything.
func covered(list []hns.ACL, rules []render.TierRule) map[hns.Direction]bool {
	have := acl.Count(list)
	out := map[hns.Direction]bool{hns.In: true, hns.Out: true}
	for _, r := range rules {
		if r.IsBlock() && have[r.ACL.Canonical()] == 0 {
			out[r.ACL.Direction] = false
		}
	}
	for _, a := range list {
		out[a.Direction] = out[a.Direction] || acl.BlocksAll(a)
	}
	return out
}
