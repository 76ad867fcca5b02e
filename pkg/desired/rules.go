package desired

import (
	"fmt"
	"slices"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// ListOf returns the desired list of an endpoint that may belong to any of these pods, at least one.
// The denials of each pod come first, then the list of the isolated pod. A pod that no policy isolates
// allows everything. If several pods are isolated they have no rule in common, as their namespaces
// differ, so only the node is allowed.
//
// ipv6 is true if the endpoint has IPv6 addresses. If a ClusterNetworkPolicy selects one of the
// pods, the rules then block all IPv6 of each direction in which something may be denied. Otherwise
// the rules are the same as for IPv4 only: the block rule of NetworkPolicies also matches IPv6, and so
// do the allow rules without peers.
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
	out.Unused = slices.DeleteFunc(slices.Clone(out.ACLs), func(a *acl.SourcedACL) bool { return !a.Unused })
	out.ACLs = slices.DeleteFunc(out.ACLs, func(a *acl.SourcedACL) bool { return a.Unused })
	if slices.ContainsFunc(out.ACLs, func(a *acl.SourcedACL) bool { return a.Direction == hns.In }) { // the node may connect whatever the rules say
		out.Shared = append(out.Shared, d.nodeRule...)
	}
	return out
}

// blocks returns the ACLs of a list that block.
func blocks(list []*acl.SourcedACL) []*acl.SourcedACL {
	return slices.DeleteFunc(slices.Clone(list), func(a *acl.SourcedACL) bool { return a.Action != hns.Block })
}

// shields returns the ACLs of a list that block, with a priority before the list of another
// pod to which the endpoint may belong.
func shields(list []*acl.SourcedACL) []*acl.SourcedACL {
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

// aclsOn returns the ACLs of a NetworkPolicy on a pod that it selects, and false if they are more than
// a pod may have. A policy without named ports is rendered once for all pods.
func (d *State) aclsOn(ps *policyState, p *PodState) ([]*acl.SourcedACL, bool) {
	if ps.acls != nil || ps.huge {
		return ps.acls, !ps.huge
	}
	d.notePolicy("rendering", ps.Key)
	rules := make([]acl.ResolvedRule, 0, len(ps.Rules))
	for _, r := range ps.Rules {
		rules = append(rules, ps.resolve(p, r))
	}
	acls, fits := acl.Render(rules, acl.Options{ID: d.cache.ID, Limit: d.cfg.Budgets.ACLs})
	switch {
	case ps.namesPorts:
	case fits:
		ps.acls = acls
	default:
		ps.huge = true
	}
	return acls, fits
}

// resolve returns a rule of the policy with the numbers that its named ports have for a pod.
func (ps *policyState) resolve(p *PodState, r policy.Rule) acl.ResolvedRule {
	from := acl.Source{Tier: ps.Tier, Key: ps.Key, Index: r.Index, Name: r.Name}
	return acl.Resolve(r, from, ps.namespace, podPorts{p, ps})
}

// numbersEach has the limits of numbers of a named port per namespace other than the policy's own.
// PodState.cut is the index of the limit that holds on a pod.
var numbersEach = [...]int{maxNumbers, 16, 4, 1, 0}

// aclsOf returns the ACLs of a pod, and sets cut, closed and silent. A list that is over the limit of
// ACLs of a pod is made again with less in it, in this order: with fewer numbers of named ports per other
// namespace, because the pod's own namespace does not control these; with its NetworkPolicies closed,
// so that they isolate it and allow nothing, because all of them are in the pod's own namespace; with only
// the Deny rules of ClusterNetworkPolicies. If that is still too much, one rule of each direction blocks
// everything.
func (d *State) aclsOf(p *PodState, ipv6 bool) []*acl.SourcedACL {
	tiered := p.Tiered()
	if tiered {
		d.note("listing tiers", "Pod", p.Namespace, p.Name)
	}
	for p.cut, p.closed, p.silent = 0, false, false; ; {
		list, fits := d.plain(p)
		if fits && tiered {
			var tiers []*acl.SourcedACL
			tiers, fits = acl.Render(p.rules(), acl.Options{ID: d.cache.ID, Limit: d.cfg.Budgets.ACLs, IPv6: ipv6})
			list = append(list, tiers...)
		}
		switch {
		case fits && (!tiered || acl.Size(list) <= d.cfg.Budgets.ACLs):
			return list
		case p.namesEgressPorts() && p.cut < len(numbersEach)-1:
			p.cut++
		case !p.closed:
			p.closed = true
		case !p.silent && tiered:
			p.silent = true
		default:
			plain, _ := d.plain(p)
			for _, dir := range policy.Directions {
				if p.tieredIn(dir) {
					plain = append(plain, acl.Isolation[dir])
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

// plain returns the ACLs of the directions of a pod in which no ClusterNetworkPolicy has a rule, and
// false if they are more than the pod may have. It stops there, because a namespace may have many
// policies. The list of a tiered pod counts as a whole, as ACLs of its tiered directions drop out.
func (d *State) plain(p *PodState) (out []*acl.SourcedACL, fits bool) {
	n := 0
	if !p.closed {
		for _, s := range p.of(policy.Namespaced) {
			acls, fits := d.aclsOn(s.policyState, p)
			out = append(out, acls...)
			if n += acl.Size(acls); !fits || n > d.cfg.Budgets.ACLs && !p.Tiered() {
				return out, false
			}
		}
	}
	for dir, isolated := range p.Isolated() {
		if isolated {
			out = append(out, acl.Isolation[dir])
		}
	}
	if !p.Tiered() {
		return out, true
	}
	for _, dir := range policy.Directions {
		if p.tieredIn(dir) {
			out = slices.DeleteFunc(out, func(a *acl.SourcedACL) bool { return a.Direction == acl.DirectionOf[dir] })
		}
	}
	return out, true
}

// rules returns the ordered rules of each direction in which a ClusterNetworkPolicy has a rule.
func (p *PodState) rules() (out []acl.ResolvedRule) {
	for _, dir := range policy.Directions {
		if p.tieredIn(dir) {
			// The first rule matches nothing. It keeps the direction one of tiers when none of their
			// rules is left, so that all IPv6 is blocked where something may be denied.
			first := acl.ResolvedRule{Direction: dir, Action: policy.Accept, From: acl.Source{Tier: policy.Admin}}
			out = slices.Concat(out, []acl.ResolvedRule{first}, p.clusterRules(policy.Admin, dir), p.tail(dir))
		}
	}
	return out
}

// clusterRules returns the rules of one tier and direction for a pod, in order.
// On a silent pod only Deny rules remain, which never opens anything: a packet that no Deny
// matches continues in the next tier. If it is unknown whether a policy selects the pod, its Accept
// rules are left out, and its Pass rules deny.
func (p *PodState) clusterRules(tier policy.Tier, dir policy.Direction) (out []acl.ResolvedRule) {
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
func (ps *policyState) rulesFor(p *PodState, r policy.Rule) []acl.ResolvedRule {
	whole, named := ps.resolve(p, r), acl.NamedPorts(r.Ports)
	whole.Atoms = slices.DeleteFunc(whole.Atoms, func(a acl.Atom) bool { return a.Unused })
	if r.Direction != policy.Egress || len(named) == 0 || r.Action == policy.Accept {
		return []acl.ResolvedRule{whole}
	}
	doubt := acl.Atom{Sets: []ipsets.Name{ipsets.Doubt()}} // the numbers of an address in doubt are unknown
	for _, port := range named {
		doubt.Ports = append(doubt.Ports, policy.Port{Protocol: port.Protocol})
	}
	doubt.Ports = policy.Fewest(doubt.Ports)
	closed := acl.ResolvedRule{Direction: r.Direction, Action: policy.Deny, From: whole.From, Atoms: []acl.Atom{doubt}}
	for _, peer := range r.Peers {
		for _, v := range ps.views[acl.ReachOf(ps.namespace, peer)] {
			if slices.Contains(named, v.port.named()) {
				closed.Atoms = append(closed.Atoms, allPorts(peer, v.key.proto, v.above(ps.numbersOn(p)))...)
			}
		}
	}
	return []acl.ResolvedRule{whole, closed}
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

// tail returns the rules after the Admin tier in a direction: the rules of the NetworkPolicies and a
// block of everything if they isolate the pod, otherwise the rules of the Baseline tier.
func (p *PodState) tail(dir policy.Direction) (out []acl.ResolvedRule) {
	if !p.Isolated()[dir] {
		return append(p.clusterRules(policy.Baseline, dir), acl.ResolvedRule{Direction: dir, Action: policy.Accept, Atoms: []acl.Atom{{}}})
	}
	for _, s := range p.of(policy.Namespaced) {
		for _, r := range s.Rules {
			if r.Direction == dir && !p.closed {
				out = append(out, s.rulesFor(p, r)...)
			}
		}
	}
	return append(out, acl.ResolvedRule{Direction: dir, Action: policy.Deny, Atoms: []acl.Atom{{}}, From: acl.Source{Tier: policy.Namespaced}})
}

// tieredIn reports whether a ClusterNetworkPolicy that selects the pod has a rule of a
// direction.
func (p *PodState) tieredIn(dir policy.Direction) bool {
	return slices.ContainsFunc(p.selected, func(s subjection) bool {
		return s.Tier != policy.Namespaced && slices.ContainsFunc(s.Rules, func(r policy.Rule) bool { return r.Direction == dir })
	})
}

// excesses returns the texts of the warnings about a policy that exceeds a limit of ACLs, or of
// numbers of named ports, on a pod. They have no counts, because other tenants could change them all
// the time.
func (d *State) excesses(p *PodState, ps *policyState) (out []string) {
	limit := d.cfg.Budgets.ACLs
	if p.cut > 0 && len(ps.views) > 0 {
		out = append(out, fmt.Sprintf("pods of other namespaces serve its named ports under so many numbers that the policies of a pod need more than %d ACLs (MaxACLsPerPod): "+
			"only the lowest numbers of each of these namespaces are accepted, and a ClusterNetworkPolicy that denies or passes the port denies all ports there; "+
			"use port numbers instead of names", limit))
	}
	if p.closed && ps.Tier == policy.Namespaced {
		out = append(out, fmt.Sprintf("the policies of a pod that it selects come to more than %d ACLs (MaxACLsPerPod), where a long ACL counts as several: "+
			"it isolates that pod and allows nothing. Merge peers, or give ports as ranges", limit))
	}
	if p.silent && ps.Tier != policy.Namespaced {
		out = append(out, fmt.Sprintf("with the other policies of a pod that it selects it comes to more than %d ACLs (MaxACLsPerPod), where a long ACL counts as several: "+
			"only its Deny rules are in force there. Make fewer rules, or order them so that less is passed", limit))
	}
	if over := ps.overNumbers(); over != "" {
		surplus := "connections to the other numbers are blocked"
		if ps.namespace == "" {
			surplus = "the other numbers are not accepted, and a rule that denies or passes the port denies all ports of that namespace"
		}
		out = append(out, fmt.Sprintf("a named port of its egress rules is served under more than %d numbers in one namespace: %s; "+
			"%s; use port numbers instead of names, or serve the port under fewer numbers", maxNumbers, over, surplus))
	}
	return out
}

// overNumbers returns the first view of the policy that is over maxNumbers, "" for none.
func (ps *policyState) overNumbers() (first string) {
	for _, views := range ps.views {
		for _, v := range views {
			if text := v.key.String(); len(v.over) > 0 && (first == "" || text < first) {
				first = text
			}
		}
	}
	return first
}

// podPorts resolves the named ports of one policy for one pod.
type podPorts struct {
	pod    *PodState
	policy *policyState
}

func (t podPorts) Own(name string, proto policy.Protocol) (uint16, bool) {
	return t.pod.port(name, proto)
}

// Served returns the numbers of the policy's named ports within a reach.
func (t podPorts) Served(at acl.Reach) (out []acl.ServedPort) {
	for _, v := range t.policy.views[at] {
		out = append(out, v.served(t.policy.numbersOn(t.pod))...)
	}
	return out
}

// numbersOn returns the limit of numbers per namespace other than the policy's own that holds for
// the policy on a pod. A rule of a ClusterNetworkPolicy has one number at least.
func (ps *policyState) numbersOn(pod *PodState) int {
	if ps.namespace == "" {
		return max(1, numbersEach[pod.cut])
	}
	return numbersEach[pod.cut]
}
