package desired

import (
	"fmt"
	"slices"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/render"
	"github.com/winnpm/winnpm/pkg/state"
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
	for _, s := range p.clusters {
		if s.policy.Tier != tier {
			continue
		}
		for _, r := range s.policy.Rules {
			switch {
			case r.Direction != dir, r.Action == policy.Accept && s.maybe, r.Action != policy.Deny && silent && !s.maybe:
				continue
			case r.Action == policy.Pass && s.maybe:
				r.Action = policy.Deny
			}
			out = append(out, s.policy.about(p, r)...)
		}
	}
	return out
}

// about returns a rule of the policy for a pod. For a rule with named ports of peers it returns two
// rules: the second one denies the traffic whose port numbers are not known.
func (cs *clusterState) about(p *PodState, r policy.ClusterRule) []inputRule {
	from := cs.source(r)
	whole := inputRule{Action: r.Action, From: from}
	ports := render.Numbered(r.Direction, r.Ports, p.port)
	if len(r.Ports) == 0 || len(ports) > 0 {
		for _, peer := range r.Peers {
			whole.Atoms = append(whole.Atoms, tiers.Atom{Sets: peer.Sets, Blocks: peer.Blocks, Ports: ports})
		}
	}
	named := render.NamedPorts(r.Ports)
	if r.Direction != policy.Egress || len(named) == 0 {
		return []inputRule{whole}
	}
	closed := inputRule{Action: policy.Deny, From: from}
	if r.Action != policy.Accept { // the numbers of an address in doubt are unknown
		doubt := tiers.Atom{Sets: []ipsets.Name{ipsets.Doubt()}}
		for _, port := range named {
			doubt.Ports = append(doubt.Ports, policy.Port{Protocol: port.Protocol})
		}
		doubt.Ports = policy.Fewest(doubt.Ports)
		closed.Atoms = append(closed.Atoms, doubt)
	}
	for _, peer := range r.Peers {
		for _, port := range named {
			served, over := cs.served(peer, port, max(1, numbersEach[p.cut]))
			whole.Atoms = append(whole.Atoms, atomsOf(peer, served)...)
			if r.Action != policy.Accept {
				closed.Atoms = append(closed.Atoms, allPorts(peer, port.Protocol, over)...)
			}
		}
	}
	return []inputRule{whole, closed}
}

// source returns the render.Source of a rule of the policy.
func (cs *clusterState) source(r policy.ClusterRule) render.Source {
	return render.Source{Tier: cs.Tier, Key: state.ClusterKey(cs.Name), Index: r.Index, Name: r.Name}
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

// served returns the numbers under which a peer serves a named port, at most each per namespace, and
// the namespaces over that have more. The sets of the result are not deny twins.
func (cs *clusterState) served(peer policy.Peer, port policy.Port, each int) (out []render.ServedPort, over []string) {
	at := render.ReachOf(cs.named.own(), peer)
	for _, v := range cs.named.views[at] {
		if v.key.port == port.Name && v.key.proto == port.Protocol {
			return v.served(each), v.above(each)
		}
	}
	panic(fmt.Sprintf("BUG: %s has no numbers of port %s towards %s", cs.Name, port.Name, at))
}

// tail returns what follows the Admin tier in a direction: the NetworkPolicies of a pod
// that they isolate, with a block of everything, or the Baseline tier.
func (p *PodState) tail(dir policy.Direction, silent bool) (out []inputRule) {
	if !p.Isolated()[dir] {
		return append(p.clusterRules(policy.Baseline, dir, silent), inputRule{Action: policy.Accept, Atoms: []tiers.Atom{{}}})
	}
	for _, ps := range p.selected {
		for rules := range ps.ByRule() {
			if rules[0].Direction == dir && !p.closed {
				out = append(out, ps.about(p, rules))
			}
		}
	}
	return append(out, inputRule{Action: policy.Deny, Atoms: []tiers.Atom{{}}, From: render.Source{Tier: policy.Namespaced}})
}

// about returns one entry of a NetworkPolicy for a pod that it selects.
func (p *policyState) about(pod *PodState, rules []policy.Rule) inputRule {
	out := inputRule{Action: policy.Accept, From: render.Source{Tier: policy.Namespaced, Key: p.Key, Index: rules[0].Index}}
	ports, named := render.Numbered(rules[0].Direction, rules[0].Ports, pod.port), render.NewNamedEgress(p.Key, rules[0], podPorts{pod, p})
	for _, r := range rules {
		if len(r.Ports) == 0 || len(ports) > 0 {
			out.Atoms = append(out.Atoms, tiers.Atom{Sets: r.Peer.Sets, Blocks: r.Peer.Blocks, Ports: ports})
		}
		out.Atoms = append(out.Atoms, atomsOf(r.Peer, named.Towards(r.Peer))...)
	}
	return out
}

// tieredIn reports whether a ClusterNetworkPolicy that selects the pod has a rule of a
// direction.
func (p *PodState) tieredIn(dir policy.Direction) bool {
	return slices.ContainsFunc(p.clusters, func(s subjection) bool {
		return slices.ContainsFunc(s.policy.Rules, func(r policy.ClusterRule) bool { return r.Direction == dir })
	})
}
