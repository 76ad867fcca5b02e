package desired

import (
	"slices"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/render"
	"github.com/winnpm/winnpm/pkg/tiers"
)

// What package tiers makes a list of: the rules that are about one pod, with numbers
// for its named ports.

type inputRule = tiers.Rule[render.Source]

// clusterRules returns the rules of one tier and direction that are about a pod, in order.
// If silent is set, only Deny rules remain, which never opens anything: a packet that no Deny
// matches goes on to the next tier. Of a policy that may select the pod, and may not, Accept
// rules are left out, and Pass rules deny.
func (p *PodState) clusterRules(tier policy.Tier, dir policy.Direction, silent bool) (out []inputRule) {
	for _, s := range p.of(tier) {
		for _, r := range s.Rules {
			switch {
			case r.Direction != dir, r.Action == policy.Accept && s.maybe, r.Action != policy.Deny && silent && !s.maybe:
				continue
			case r.Action == policy.Pass && s.maybe:
				r.Action = policy.Deny
			}
			out = append(out, s.about(p, r)...)
		}
	}
	return out
}

// about returns a rule of the policy for a pod. For a rule of a ClusterNetworkPolicy with named
// ports of peers it returns two rules: the second one denies the traffic whose port numbers are
// not known.
func (ps *policyState) about(p *PodState, r policy.Rule) []inputRule {
	from := ps.source(r)
	whole := inputRule{Action: r.Action, From: from}
	ports, named := render.Numbered(r.Direction, r.Ports, p.port), render.NewNamedEgress(ps.own(), r, podPorts{p, ps})
	for _, peer := range r.Peers {
		if len(r.Ports) == 0 || len(ports) > 0 {
			whole.Atoms = append(whole.Atoms, tiers.Atom{Sets: peer.Sets, Blocks: peer.Blocks, Ports: ports})
		}
		whole.Atoms = append(whole.Atoms, atomsOf(peer, named.Towards(peer))...)
	}
	if named == nil || r.Action == policy.Accept {
		return []inputRule{whole}
	}
	doubt := tiers.Atom{Sets: []ipsets.Name{ipsets.Doubt()}} // the numbers of an address in doubt are unknown
	for _, port := range render.NamedPorts(r.Ports) {
		doubt.Ports = append(doubt.Ports, policy.Port{Protocol: port.Protocol})
	}
	doubt.Ports = policy.Fewest(doubt.Ports)
	closed := inputRule{Action: policy.Deny, From: from, Atoms: []tiers.Atom{doubt}}
	for _, peer := range r.Peers {
		for _, v := range ps.views[render.ReachOf(ps.own(), peer)] {
			if named.Asks(v.port()) {
				closed.Atoms = append(closed.Atoms, allPorts(peer, v.key.proto, v.above(ps.numbersOn(p)))...)
			}
		}
	}
	return []inputRule{whole, closed}
}

// source returns the render.Source of a rule of the policy.
func (ps *policyState) source(r policy.Rule) render.Source {
	return render.Source{Tier: ps.Tier, Key: ps.Key, Index: r.Index, Name: r.Name}
}

// allPorts returns the traffic of a protocol to all pods of a peer in the namespaces over, which
// serve a named port under too many numbers. If the peer has address blocks, it returns the traffic
// to the whole peer, because one rule cannot have both blocks and sets.
func allPorts(peer policy.Peer, protocol policy.Protocol, over []string) (out []tiers.Atom) {
	ports := []policy.Port{{Protocol: protocol}}
	if len(over) > 0 && len(peer.Blocks) > 0 {
		return []tiers.Atom{{Sets: peer.Sets, Blocks: peer.Blocks, Ports: ports}}
	}
	for _, namespace := range over {
		sets := slices.Clone(peer.Sets)
		if own := ipsets.Namespace(namespace); !slices.Contains(sets, own) {
			sets = append(sets, own)
		}
		out = append(out, tiers.Atom{Sets: sets, Ports: ports})
	}
	return out
}

// atomsOf returns the traffic to the pods of a peer under the numbers that they serve.
// Where the peer is blocks, the sets are of those inside.
func atomsOf(peer policy.Peer, served []render.ServedPort) (out []tiers.Atom) {
	for _, s := range served {
		if !s.Unused {
			out = append(out, tiers.Atom{
				Sets:  append(slices.Clone(peer.Sets), s.Set),
				Ports: []policy.Port{{Protocol: s.Port.Protocol, First: s.Number, Last: s.Number}},
			})
		}
	}
	return out
}

// tail returns what follows the Admin tier in a direction: the NetworkPolicies of a pod
// that they isolate, with a block of everything, or the Baseline tier.
func (p *PodState) tail(dir policy.Direction, silent bool) (out []inputRule) {
	if !p.Isolated()[dir] {
		return append(p.clusterRules(policy.Baseline, dir, silent), inputRule{Action: policy.Accept, Atoms: []tiers.Atom{{}}})
	}
	for _, s := range p.of(policy.Namespaced) {
		for _, r := range s.Rules {
			if r.Direction == dir && !p.closed {
				out = append(out, s.about(p, r)...)
			}
		}
	}
	return append(out, inputRule{Action: policy.Deny, Atoms: []tiers.Atom{{}}, From: render.Source{Tier: policy.Namespaced}})
}

// tieredIn reports whether a ClusterNetworkPolicy that selects the pod has a rule of a
// direction.
func (p *PodState) tieredIn(dir policy.Direction) bool {
	return slices.ContainsFunc(p.selected, func(s subjection) bool {
		return s.Tier != policy.Namespaced && slices.ContainsFunc(s.Rules, func(r policy.Rule) bool { return r.Direction == dir })
	})
}
