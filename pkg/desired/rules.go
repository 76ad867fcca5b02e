package desired

import (
	"slices"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
)

// ListOf returns the desired list of an endpoint that may belong to any of these pods, at least one.
// The denials of each pod come first, then the list of the isolated pod. A pod that no policy isolates
// allows everything. If several pods are isolated they have no rule in common, as their namespaces
// differ, so only the node is allowed.
//
// ipv6 is true if the endpoint has IPv6 addresses. If a ClusterNetworkPolicy selects one of the
// pods, the rules then block all IPv6 of each direction in which something may be denied. Without
// such a policy the rules are the same as for IPv4 only: the block rule of NetworkPolicies matches
// IPv6 as well, and of the allow rules only those without peers do.
func (d *State) ListOf(home []*PodState, ipv6 bool) acl.List {
	isolating := slices.DeleteFunc(slices.Clone(home), func(p *PodState) bool { return p.Isolated() == [2]bool{} })
	chosen := home[0]
	if len(isolating) > 0 {
		chosen = isolating[0]
	}
	out := acl.List{Shared: slices.Clone(d.cfg.BaseACLs), Tiered: slices.ContainsFunc(home, (*PodState).Tiered)}
	for _, p := range home {
		switch list := d.aclsOf(p, ipv6); {
		case len(isolating) > 1:
			out.ACLs = append(out.ACLs, blocks(list)...)
		case p != chosen:
			out.ACLs = append(shields(list), out.ACLs...)
		default:
			out.ACLs = append(out.ACLs, list...)
		}
	}
	out.Unused = slices.DeleteFunc(slices.Clone(out.ACLs), func(a *acl.ACL) bool { return !a.Unused })
	out.ACLs = slices.DeleteFunc(out.ACLs, func(a *acl.ACL) bool { return a.Unused })
	if slices.ContainsFunc(out.ACLs, func(a *acl.ACL) bool { return a.Direction == hns.In }) { // the node may connect whatever the rules say
		out.Shared = append(out.Shared, acl.Node(d.nodeAddrs)...)
	}
	return out
}

// blocks returns the ACLs of a list that block.
func blocks(list []*acl.ACL) []*acl.ACL {
	return slices.DeleteFunc(slices.Clone(list), func(a *acl.ACL) bool { return !a.IsBlock() })
}

// shields returns the ACLs of a list that block, with a priority before the list of another
// pod to which the endpoint may belong.
func shields(list []*acl.ACL) []*acl.ACL {
	out := blocks(list)
	for i := range out {
		first := *out[i]
		first.Priority = hns.PriorityShield
		out[i] = &first
	}
	return out
}

// Isolated returns the directions in which a policy, or its budget, isolates a local
// pod.
func (p *PodState) Isolated() [2]bool {
	isolated := [2]bool{p.OverBudget != "", p.OverBudget != ""}
	for _, ps := range p.selected {
		for _, dir := range policy.Directions {
			isolated[dir] = isolated[dir] || ps.Isolates[dir]
		}
	}
	return isolated
}

// aclsOn returns the ACLs of a NetworkPolicy on a pod that it selects. A policy without named ports
// is rendered once for all pods.
func (d *State) aclsOn(ps *policyState, p *PodState) []*acl.ACL {
	if ps.acls != nil {
		return ps.acls
	}
	d.notePolicy("rendering", ps.Key)
	acls, _ := acl.Render(ps.entries(p), acl.Options{ID: d.id})
	if !ps.namesPorts() {
		ps.acls = acls
	}
	return acls
}

// entries returns the rules of a NetworkPolicy for a pod.
func (ps *policyState) entries(p *PodState) []acl.Rule {
	out := make([]acl.Rule, 0, len(ps.Rules))
	for _, r := range ps.Rules {
		out = append(out, ps.resolve(p, r))
	}
	return out
}

// resolve returns a rule of the policy with the numbers that its named ports have for a pod.
func (ps *policyState) resolve(p *PodState, r policy.Rule) acl.Rule {
	from := acl.Source{Tier: ps.Tier, Key: ps.Key, Index: r.Index, Name: r.Name}
	return acl.Resolve(r, from, ps.own(), podPorts{p, ps})
}
