package desired

import (
	"slices"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
)

// RulesOf renders what an endpoint has while it may be any of these pods', at
// least one: what one of them is isolated in is blocked, and what is allowed is what
// each of them allows. A pod that no policy isolates allows everything. When several
// are isolated they have no rule in common, as they are of different namespaces, so
// nothing is allowed but the node.
//
// ipv6 is true if the endpoint has IPv6 addresses. If a ClusterNetworkPolicy selects one of the
// pods, the rules then block all IPv6 of each direction in which something may be denied. Without
// such a policy the rules are the same as for IPv4 only: the block rule of NetworkPolicies matches
// IPv6 as well, and of the allow rules only those without peers do.
func (d *State) RulesOf(home []*PodState, ipv6 bool) acl.Rules {
	isolating := slices.DeleteFunc(slices.Clone(home), func(p *PodState) bool { return p.Isolated() == [2]bool{} })
	chosen := home[0]
	if len(isolating) > 0 {
		chosen = isolating[0]
	}
	if slices.ContainsFunc(home, (*PodState).Tiered) {
		return d.tieredBy(home, chosen, len(isolating) > 1, ipv6)
	}
	if len(isolating) <= 1 {
		return d.desiredOf(chosen)
	}
	var isolated [2]bool
	for _, p := range isolating {
		for dir, is := range p.Isolated() {
			isolated[dir] = isolated[dir] || is
		}
	}
	return acl.Rules{Shared: slices.Concat(d.cfg.BaseACLs, acl.Shared(isolated, d.nodeAddrs))}
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

// desiredOf renders the policies that select a pod.
func (d *State) desiredOf(p *PodState) acl.Rules {
	d.fit(p)
	w := acl.Rules{Shared: slices.Concat(d.cfg.BaseACLs, acl.Shared(p.Isolated(), d.nodeAddrs))}
	for _, s := range p.of(policy.Namespaced) {
		w.Groups = append(w.Groups, d.group(s.policyState, p))
	}
	return w
}

// group renders a NetworkPolicy for a pod that it selects; a closed one has no rules. A policy
// without named ports is rendered once for all pods.
func (d *State) group(ps *policyState, p *PodState) *acl.Group {
	if p.closed {
		return &acl.Group{Key: ps.Key, Isolates: ps.Isolates}
	}
	if ps.group != nil {
		return ps.group
	}
	d.notePolicy("rendering", ps.Key)
	g := acl.NewGroup(ps.Key, ps.Isolates, ps.entries(p), d.id)
	if !ps.namesPorts() {
		ps.group = g
	}
	return g
}

// entries returns the rules of a NetworkPolicy for a pod.
func (ps *policyState) entries(p *PodState) []acl.Entry {
	out := make([]acl.Entry, 0, len(ps.Rules))
	for _, r := range ps.Rules {
		out = append(out, ps.resolve(p, r))
	}
	return out
}

// resolve returns a rule of the policy with the numbers that its named ports have for a pod.
func (ps *policyState) resolve(p *PodState, r policy.Rule) acl.Entry {
	return acl.Resolve(r, ps.source(r), ps.own(), podPorts{p, ps})
}

// source returns the acl.Source of a rule of the policy.
func (ps *policyState) source(r policy.Rule) acl.Source {
	return acl.Source{Tier: ps.Tier, Key: ps.Key, Index: r.Index, Name: r.Name}
}

// tieredBy renders what an endpoint has while it may be any of these pods', at least
// one, and a ClusterNetworkPolicy selects one of them. What one of them denies is denied
// before all else, and the rest is the list of the chosen one: of the one that
// NetworkPolicies isolate, or when they isolate several just the blocks.
func (d *State) tieredBy(home []*PodState, chosen *PodState, several, ipv6 bool) acl.Rules {
	all := &acl.Group{}
	w := acl.Rules{Shared: slices.Clone(d.cfg.BaseACLs), Groups: []*acl.Group{all}, Tiered: true}
	for _, p := range home {
		d.fit(p)
		l := d.tiersOf(p, ipv6)
		if p != chosen || several {
			all.Rules = append(rivals(l), all.Rules...)
		} else {
			all.Rules = append(all.Rules, l...)
		}
	}
	slices.SortStableFunc(all.Rules, func(a, b acl.Rule) int { return cmpDirection(a.ACL, b.ACL) })
	if slices.ContainsFunc(all.Rules, func(r acl.Rule) bool { return r.ACL.Direction == hns.In }) { // the node may connect whatever the rules say
		w.Shared = append(w.Shared, acl.Node(d.nodeAddrs)...)
	}
	return w
}

// rivals returns the rules of a list that block, to stand before the list of another
// pod to which the endpoint may belong.
func rivals(rules []acl.Rule) (out []acl.Rule) {
	for _, r := range rules {
		if r.IsBlock() {
			r.ACL.Priority = hns.PriorityShield
			out = append(out, r)
		}
	}
	return out
}

// cmpDirection sorts what comes in before what goes out, and either by priority.
func cmpDirection(a, b hns.ACL) int {
	if a.Direction != b.Direction {
		if a.Direction == hns.In {
			return -1
		}
		return 1
	}
	return int(a.Priority) - int(b.Priority)
}
