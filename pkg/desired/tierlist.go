package desired

import (
	"slices"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// The lists of a pod must be within its limit of ACLs. If they are not, the agent takes the
// following steps in this order until they are: it uses fewer numbers of named ports per namespace,
// the NetworkPolicies of the pod close, and only Deny rules remain. If these are still too many, one
// rule of each direction blocks everything.

// tiersOf returns the rules of both directions of a pod that a ClusterNetworkPolicy selects, each in
// order. fit must have been called for the pod before. Its cost is linear in the number of policies
// that select the pod, plus the cost of acl.List, which is bounded.
func (d *State) tiersOf(p *PodState, ipv6 bool) []acl.Rule {
	d.note("listing tiers", "Pod", p.Namespace, p.Name)
	rules, over := d.listTiers(p, ipv6)
	for over && !p.silent {
		switch {
		case p.namesEgressPorts() && p.cut < len(numbersEach)-1:
			p.cut++
		case !p.closed:
			p.closed = true
		default:
			p.silent = true
		}
		rules, over = d.listTiers(p, ipv6)
	}
	return rules
}

// namesEgressPorts reports whether the size of the lists depends on the numbers under which other
// pods serve named ports.
func (p *PodState) namesEgressPorts() bool {
	return slices.ContainsFunc(p.selected, func(s subjection) bool { return len(s.views) > 0 })
}

// listTiers returns the lists as the limits of the pod have them. over reports whether
// they are over the limit together; each of them then blocks everything.
func (d *State) listTiers(p *PodState, ipv6 bool) (out []acl.Rule, over bool) {
	idBytes := p.idBytes()
	limit := acl.Limit{ACLs: d.cfg.Budgets.ACLs, Cost: func(a acl.Atom) int { return acl.Cost(a, idBytes) }}
	var plain [2][]acl.Rule
	var lists [2]acl.Result
	acls := 0
	for _, dir := range policy.Directions {
		if p.tieredIn(dir) {
			lists[dir] = acl.List(p.clusterRules(policy.Admin, dir), p.tail(dir), limit)
			over = over || lists[dir].Over || slices.ContainsFunc(lists[dir].Lines, func(l acl.Line) bool { return l.Run >= acl.MaxRuns })
			acls += lists[dir].ACLs
		} else {
			plain[dir] = d.plainRules(p, dir)
			acls += acl.SizeOfRules(plain[dir])
		}
	}
	over = over || acls > limit.ACLs
	for _, dir := range policy.Directions {
		if !p.tieredIn(dir) {
			out = append(out, plain[dir]...)
			continue
		}
		if over {
			lists[dir] = acl.BlockAll()
		}
		if from, denies := p.denies(dir, lists[dir].Lines); ipv6 && denies {
			out = append(out, acl.BlockIPv6(dir, from))
		}
		out = append(out, acl.Lines(dir, lists[dir].Lines, d.id)...)
	}
	return out, over
}

// denies reports whether a pod may be denied anything in a direction in which a ClusterNetworkPolicy
// has a rule, and returns the source of the first such rule. It ignores the peers and the order of
// Deny rules, because an IPv6 peer can be any of them.
func (p *PodState) denies(dir policy.Direction, lines []acl.Line) (from acl.Source, is bool) {
	for _, s := range p.selected {
		for _, r := range s.Rules {
			if r.Direction == dir && (r.Action == policy.Deny || r.Action == policy.Pass && s.maybe) {
				return s.source(r), true
			}
		}
	}
	at := slices.IndexFunc(lines, func(l acl.Line) bool { return l.Block })
	if at >= 0 {
		from = lines[at].From
	}
	return from, at >= 0 || p.Isolated()[dir]
}

// idBytes is the length of the longest Id that a rule of the pod may have.
func (p *PodState) idBytes() int {
	longest := len(acl.IDBlockOut)
	for _, s := range p.selected {
		longest = max(longest, len(state.ACLID(s.Key)))
	}
	return longest
}

// plainRules returns the rules of a direction in which no ClusterNetworkPolicy has one:
// those of an endpoint without any.
func (d *State) plainRules(p *PodState, dir policy.Direction) (out []acl.Rule) {
	for _, s := range p.of(policy.Namespaced) {
		for _, r := range d.group(s.policyState, p).Rules {
			if r.ACL.Direction == acl.DirectionOf(dir) && !r.Unused {
				out = append(out, r)
			}
		}
	}
	var isolated [2]bool
	isolated[dir] = p.Isolated()[dir]
	for _, a := range acl.Shared(isolated, nil) {
		out = append(out, acl.Rule{ACL: a, From: acl.Source{Tier: policy.Namespaced}})
	}
	return out
}

// clusterRules returns the rules of one tier and direction that are about a pod, in order.
// On a silent pod only Deny rules remain, which never opens anything: a packet that no Deny
// matches goes on to the next tier. Of a policy that may select the pod, and may not, Accept
// rules are left out, and Pass rules deny.
func (p *PodState) clusterRules(tier policy.Tier, dir policy.Direction) (out []acl.Entry) {
	for _, s := range p.of(tier) {
		for _, r := range s.Rules {
			switch {
			case r.Direction != dir, r.Action == policy.Accept && s.maybe, r.Action != policy.Deny && p.silent && !s.maybe:
				continue
			case r.Action == policy.Pass && s.maybe:
				r.Action = policy.Deny
			}
			out = append(out, s.about(p, r)...)
		}
	}
	return out
}

// about returns a rule of the policy for the list of a pod. For a rule of a ClusterNetworkPolicy
// with named ports of peers it returns two rules: the second one denies the traffic whose port
// numbers are not known.
func (ps *policyState) about(p *PodState, r policy.Rule) []acl.Entry {
	whole, named := ps.resolve(p, r), acl.NamedPorts(r.Ports)
	whole.Atoms = slices.DeleteFunc(whole.Atoms, func(a acl.Atom) bool { return a.Unused })
	if r.Direction != policy.Egress || len(named) == 0 || r.Action == policy.Accept {
		return []acl.Entry{whole}
	}
	doubt := acl.Atom{Sets: []ipsets.Name{ipsets.Doubt()}} // the numbers of an address in doubt are unknown
	for _, port := range named {
		doubt.Ports = append(doubt.Ports, policy.Port{Protocol: port.Protocol})
	}
	doubt.Ports = policy.Fewest(doubt.Ports)
	closed := acl.Entry{Direction: r.Direction, Action: policy.Deny, From: whole.From, Atoms: []acl.Atom{doubt}}
	for _, peer := range r.Peers {
		for _, v := range ps.views[acl.ReachOf(ps.own(), peer)] {
			if slices.Contains(named, v.named()) {
				closed.Atoms = append(closed.Atoms, allPorts(peer, v.key.proto, v.above(ps.numbersOn(p)))...)
			}
		}
	}
	return []acl.Entry{whole, closed}
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

// tail returns what follows the Admin tier in a direction: the NetworkPolicies of a pod
// that they isolate, with a block of everything, or the Baseline tier.
func (p *PodState) tail(dir policy.Direction) (out []acl.Entry) {
	if !p.Isolated()[dir] {
		return append(p.clusterRules(policy.Baseline, dir), acl.Entry{Action: policy.Accept, Atoms: []acl.Atom{{}}})
	}
	for _, s := range p.of(policy.Namespaced) {
		for _, r := range s.Rules {
			if r.Direction == dir && !p.closed {
				out = append(out, s.about(p, r)...)
			}
		}
	}
	return append(out, acl.Entry{Action: policy.Deny, Atoms: []acl.Atom{{}}, From: acl.Source{Tier: policy.Namespaced}})
}

// tieredIn reports whether a ClusterNetworkPolicy that selects the pod has a rule of a
// direction.
func (p *PodState) tieredIn(dir policy.Direction) bool {
	return slices.ContainsFunc(p.selected, func(s subjection) bool {
		return s.Tier != policy.Namespaced && slices.ContainsFunc(s.Rules, func(r policy.Rule) bool { return r.Direction == dir })
	})
}
