package desired

import (
	"slices"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/progress"
	"github.com/winnpm/winnpm/pkg/render"
)

// desiredOf renders the policies that select a pod.
func (d *State) desiredOf(p *PodState) render.Rules {
	d.fit(p)
	w := render.Rules{Shared: slices.Concat(d.cfg.BaseACLs, acl.Shared(p.Isolated(), d.nodeAddrs))}
	for _, s := range p.of(policy.Namespaced) {
		w.Groups = append(w.Groups, d.group(s.policyState, p))
	}
	return w
}

// group renders a policy for a pod that it selects; a closed one has no rules. A policy
// without named ports is rendered once for all pods.
func (d *State) group(ps *policyState, p *PodState) *render.Group {
	if p.closed {
		return &render.Group{Key: ps.Key, Isolates: ps.Isolates}
	}
	if ps.group != nil {
		return ps.group
	}
	defer d.progress.Within("rendering", progress.NetworkPolicy, ps.Key.Namespace, ps.Key.Name)()
	g := render.Policy(&ps.Policy, podPorts{p, ps}, d.id)
	if !ps.namesPorts() {
		ps.group = g
	}
	return g
}

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
func (d *State) RulesOf(home []*PodState, ipv6 bool) render.Rules {
	if slices.ContainsFunc(home, (*PodState).Tiered) {
		return d.tieredBy(home, ipv6)
	}
	isolating := slices.DeleteFunc(slices.Clone(home), func(p *PodState) bool { return p.Isolated() == [2]bool{} })
	switch len(isolating) {
	case 0:
		return d.desiredOf(home[0])
	case 1:
		return d.desiredOf(isolating[0])
	}
	var isolated [2]bool
	for _, p := range isolating {
		for dir, is := range p.Isolated() {
			isolated[dir] = isolated[dir] || is
		}
	}
	return render.Rules{Shared: slices.Concat(d.cfg.BaseACLs, acl.Shared(isolated, d.nodeAddrs))}
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
