package policy_test

import (
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/policy"
)

// answer is what a part of a rule says of a packet.
type answer int

const (
	no answer = iota
	yes
	unreadable // the rule closes
)

func anyOf(answers ...answer) answer { return slices.Max(append(answers, no)) }

// naiveRule reads one rule as the API documents it: what it does to the packet, "" for
// nothing. A policy that is closed as a whole accepts nothing and denies what it passes.
func naiveRule(action string, peers []v1alpha2.ClusterNetworkPolicyEgressPeer, protocols []v1alpha2.ClusterNetworkPolicyProtocol, closed bool, o other) string {
	accepts := action == "Accept"
	from, via := unreadable, no
	if len(peers) > 0 {
		from = no
	}
	for _, p := range peers {
		from = anyOf(from, naiveClusterPeer(p, accepts, o))
	}
	if len(protocols) == 0 {
		via = yes
	}
	for _, p := range protocols {
		via = anyOf(via, naiveProtocol(p, o))
	}
	broken := from == unreadable || via == unreadable
	switch {
	case accepts && (broken || closed):
		return ""
	case broken:
		return "Deny"
	case from == no || via == no:
		return ""
	case closed || action != "Accept" && action != "Pass":
		return "Deny"
	}
	return action
}

func naiveClusterPeer(p v1alpha2.ClusterNetworkPolicyEgressPeer, accepts bool, o other) answer {
	var answers []answer
	if p.Namespaces != nil {
		answers = append(answers, labelAnswer(p.Namespaces, o.namespaceLabels))
	}
	if p.Pods != nil {
		ns, pod := labelAnswer(&p.Pods.NamespaceSelector, o.namespaceLabels), labelAnswer(&p.Pods.PodSelector, o.labels)
		both := min(ns, pod)
		if anyOf(ns, pod) == unreadable {
			both = unreadable
		}
		answers = append(answers, both)
	}
	if p.Nodes != nil {
		answers = append(answers, labelAnswer(p.Nodes, o.nodeLabels))
	}
	if p.Networks != nil {
		var in answer
		for _, text := range p.Networks {
			cidr, err := netip.ParsePrefix(string(text))
			switch {
			case err != nil || strings.Contains(string(text), "ffff:"):
				in = unreadable
			case cidr.Contains(o.addr):
				in = anyOf(in, yes)
			}
		}
		answers = append(answers, in)
	}
	if p.DomainNames != nil {
		if accepts {
			answers = append(answers, no)
		} else {
			answers = append(answers, unreadable)
		}
	}
	if len(answers) != 1 {
		return unreadable
	}
	return answers[0]
}

func boolAnswer(is bool) answer {
	if is {
		return yes
	}
	return no
}

func labelAnswer(s *metav1.LabelSelector, l map[string]string) answer {
	if _, err := metav1.LabelSelectorAsSelector(s); err != nil {
		return unreadable
	}
	return boolAnswer(naiveSelector(s, l))
}

func naiveProtocol(p v1alpha2.ClusterNetworkPolicyProtocol, o other) answer {
	var answers []answer
	number := func(protocol string, port *v1alpha2.Port) {
		one := unreadable
		switch {
		case port == nil || (port.Number != 0) == (port.Range != nil):
		case port.Range == nil && port.Number > 0 && port.Number < 1<<16:
			one = boolAnswer(port.Number == o.port)
		case port.Range != nil && port.Range.Start > 0 && port.Range.End < 1<<16 && port.Range.Start <= port.Range.End:
			one = boolAnswer(port.Range.Start <= o.port && o.port <= port.Range.End)
		}
		if one == yes {
			one = boolAnswer(string(o.protocol) == protocol)
		}
		answers = append(answers, one)
	}
	if p.TCP != nil {
		number("TCP", p.TCP.DestinationPort)
	}
	if p.UDP != nil {
		number("UDP", p.UDP.DestinationPort)
	}
	if p.SCTP != nil {
		number("SCTP", p.SCTP.DestinationPort)
	}
	if p.DestinationNamedPort != "" {
		answers = append(answers, boolAnswer(o.protocol != icmp && p.DestinationNamedPort == o.portName))
	}
	if len(answers) != 1 {
		return unreadable
	}
	return answers[0]
}

// naiveClosed reports whether the policy as a whole cannot be read.
func naiveClosed(spec *v1alpha2.ClusterNetworkPolicySpec) bool {
	ok := spec.Tier == "Admin" || spec.Tier == "Baseline"
	return !ok || spec.Priority < 0 || spec.Priority > 1000 || naiveSubject(spec, other{}) == unreadable
}

func naiveSubject(spec *v1alpha2.ClusterNetworkPolicySpec, o other) answer {
	s := spec.Subject
	return naiveClusterPeer(v1alpha2.ClusterNetworkPolicyEgressPeer{Namespaces: s.Namespaces, Pods: s.Pods}, true, o)
}

// compiledRule plays a compiled rule and the sets on the same packet.
func compiledRule(c policy.Policy, r policy.Rule, o other) string {
	sets := policy.Policy{Sets: c.Sets}
	for _, p := range r.Peers {
		twin := policy.Peer{Blocks: p.Blocks}
		for _, n := range p.Sets {
			twin.Sets = append(twin.Sets, n.Deny())
		}
		in := r.Action != policy.Deny && peerHolds(sets, p, o)
		if r.Action != policy.Accept {
			denied := peerHolds(sets, twin, o)
			if r.Action == policy.Pass && denied != in {
				return "the twins differ"
			}
			in = denied
		}
		if in && portsHold(r.Ports, o) {
			return string(r.Action)
		}
	}
	return ""
}
