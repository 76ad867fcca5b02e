package desired

import (
	"slices"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// The lists of a pod must be within its limit of ACLs. If they are not, the agent takes the
// following steps in this order until they are: it uses fewer numbers of named ports per namespace,
// the NetworkPolicies of the pod close, and only Deny rules remain. If these are still too many, one
// rule of each direction blocks everything.

// aclsOf returns the ACLs of a pod. Its cost is linear in the number of policies that select the pod,
// plus the cost of acl.Render for tiers, which is bounded.
func (d *State) aclsOf(p *PodState, ipv6 bool) []*acl.ACL {
	d.fit(p)
	if !p.Tiered() {
		return d.plain(p)
	}
	d.note("listing tiers", "Pod", p.Namespace, p.Name)
	for {
		plain := d.plain(p)
		tiers, fits := acl.Render(p.rules(), acl.Options{ID: d.id, Limit: d.cfg.Budgets.ACLs, IPv6: ipv6})
		list := slices.Concat(plain, tiers)
		switch {
		case fits && acl.Size(list) <= d.cfg.Budgets.ACLs:
			return list
		case p.namesEgressPorts() && p.cut < len(numbersEach)-1:
			p.cut++
		case !p.closed:
			p.closed = true
		case !p.silent:
			p.silent = true
		default:
			for _, dir := range policy.Directions {
				if p.tieredIn(dir) {
					plain = append(plain, acl.Isolation(dir))
				}
			}
			return plain
		}
	}
}

// namesEgressPorts reports whether the size of the lists depends on the numbers under which other
// pods serve named ports.
func (p *PodState) namesEgressPorts() bool {
	return slices.ContainsFunc(p.selected, func(s subjection) bool { return len(s.views) > 0 })
}

// plain returns the ACLs of the directions of a pod in which no ClusterNetworkPolicy has a rule.
func (d *State) plain(p *PodState) (out []*acl.ACL) {
	if !p.closed {
		for _, s := range p.of(policy.Namespaced) {
			out = append(out, d.aclsOn(s.policyState, p)...)
		}
	}
	for dir, isolated := range p.Isolated() {
		if isolated {
			out = append(out, acl.Isolation(policy.Direction(dir)))
		}
	}
	for _, dir := range policy.Directions {
		if p.tieredIn(dir) {
			out = slices.DeleteFunc(out, func(a *acl.ACL) bool { return a.Direction == acl.DirectionOf(dir) })
		}
	}
	return out
}

// rules returns the ordered rules of each direction in which a ClusterNetworkPolicy has a rule.
func (p *PodState) rules() (out []acl.Rule) {
	for _, dir := range policy.Directions {
		if p.tieredIn(dir) {
			// The first rule matches nothing. It keeps the direction one of tiers when none of their
			// rules is left, so that all IPv6 is blocked where something may be denied.
			first := acl.Rule{Direction: dir, Action: policy.Accept, From: acl.Source{Tier: policy.Admin}}
			out = slices.Concat(out, []acl.Rule{first}, p.clusterRules(policy.Admin, dir), p.tail(dir))
		}
	}
	return out
}

// clusterRules returns the rules of one tier and direction for a pod, in order.
// On a silent pod only Deny rules remain, which never opens anything: a packet that no Deny
// matches goes on to the next tier. Of a policy that may select the pod, and may not, Accept
// rules are left out, and Pass rules deny.
func (p *PodState) clusterRules(tier policy.Tier, dir policy.Direction) (out []acl.Rule) {
	for _, s := range p.of(tier) {
		for _, r := range s.Rules {
			switch {
			case r.Direction != dir, r.Action == policy.Accept && s.maybe, r.Action != policy.Deny && p.silent && !s.maybe:
				continue
			case r.Action == policy.Pass && s.maybe:
				r.Action = policy.Deny
			}
			out = append(out, s.rulesFor(p, r)...)
		}
	}
	return out
}

// rulesFor returns a rule of the policy for the list of a pod. For a rule of a ClusterNetworkPolicy
// with named ports of peers it returns two rules: the second one denies the traffic whose port
// numbers are not known.
func (ps *policyState) rulesFor(p *PodState, r policy.Rule) []acl.Rule {
	whole, named := ps.resolve(p, r), acl.NamedPorts(r.Ports)
	whole.Atoms = slices.DeleteFunc(whole.Atoms, func(a acl.Atom) bool { return a.Unused })
	if r.Direction != policy.Egress || len(named) == 0 || r.Action == policy.Accept {
		return []acl.Rule{whole}
	}
	doubt := acl.Atom{Sets: []ipsets.Name{ipsets.Doubt()}} // the numbers of an address in doubt are unknown
	for _, port := range named {
		doubt.Ports = append(doubt.Ports, policy.Port{Protocol: port.Protocol})
	}
	doubt.Ports = policy.Fewest(doubt.Ports)
	closed := acl.Rule{Direction: r.Direction, Action: policy.Deny, From: whole.From, Atoms: []acl.Atom{doubt}}
	for _, peer := range r.Peers {
		for _, v := range ps.views[acl.ReachOf(ps.own(), peer)] {
			if slices.Contains(named, v.port.named()) {
				closed.Atoms = append(closed.Atoms, allPorts(peer, v.key.proto, v.above(ps.numbersOn(p)))...)
			}
		}
	}
	return []acl.Rule{whole, closed}
}

// allPorts returns the traffic of a protocol to all pods of a peer in the namespaces over, which
// serve a named port under too many numbers. If the peer has address blocks, it returns the traffic
// to the whole peer, because one rule cannot have both blocks and sets.
func allPorts(peer policy.Peer, protocol policy.Protocol, over []string) (out []acl.Atom) {
	ports := []policy.Port{{Protocol: protocol}}
	if len(over) > 0 && len(peer.Blocks) > 0 {
		return []acl.Atom{{Sets: peer.Sets, Blocks: peer.Blocks, Ports: ports}}
	}
	for _, namespace := range over {
		sets := slices.Clone(peer.Sets)
		if own := ipsets.Namespace(namespace); !slices.Contains(sets, own) {
			sets = append(sets, own)
		}
		out = append(out, acl.Atom{Sets: sets, Ports: ports})
	}
	return out
}

// tail returns the rules after the Admin tier in a direction: those of the NetworkPolicies and a
// block of everything if they isolate the pod, otherwise those of the Baseline tier.
func (p *PodState) tail(dir policy.Direction) (out []acl.Rule) {
	if !p.Isolated()[dir] {
		return append(p.clusterRules(policy.Baseline, dir), acl.Rule{Direction: dir, Action: policy.Accept, Atoms: []acl.Atom{{}}})
	}
	for _, s := range p.of(policy.Namespaced) {
		for _, r := range s.Rules {
			if r.Direction == dir && !p.closed {
				out = append(out, s.rulesFor(p, r)...)
			}
		}
	}
	return append(out, acl.Rule{Direction: dir, Action: policy.Deny, Atoms: []acl.Atom{{}}, From: acl.Source{Tier: policy.Namespaced}})
}

// tieredIn reports whether a ClusterNetworkPolicy that selects the pod has a rule of a
// direction.
func (p *PodState) tieredIn(dir policy.Direction) bool {
	return slices.ContainsFunc(p.selected, func(s subjection) bool {
		return s.Tier != policy.Namespaced && slices.ContainsFunc(s.Rules, func(r policy.Rule) bool { return r.Direction == dir })
	})
}
