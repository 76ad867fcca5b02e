package oracle

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// truth is what is known of a statement.
type truth int

const (
	no truth = iota
	maybe
	yes
)

func known3(is bool) truth {
	if is {
		return yes
	}
	return no
}

// tiered reports whether a ClusterNetworkPolicy is about a pod, or may be.
func (p packet) tiered(pod *corev1.Pod) bool {
	return slices.ContainsFunc(p.ClusterPolicies, func(cnp v1alpha2.ClusterNetworkPolicy) bool { return p.isSubject(cnp.Spec.Subject, pod) != no })
}

// isSubject reports whether a policy is about a pod, which is none of the host's
// network. A selector that is none selects everything.
func (p packet) isSubject(s v1alpha2.ClusterNetworkPolicySubject, pod *corev1.Pod) truth {
	switch {
	case unread(s.Namespaces, s.Pods) || (s.Namespaces == nil) == (s.Pods == nil):
		return yes
	case s.Namespaces != nil:
		return p.inNamespaces(s.Namespaces, pod.Namespace)
	case !matches(&s.Pods.PodSelector, pod.Labels):
		return no
	}
	return p.inNamespaces(&s.Pods.NamespaceSelector, pod.Namespace)
}

// inNamespaces reports whether a selector matches a namespace: maybe, when it has no
// object.
func (p packet) inNamespaces(selector *metav1.LabelSelector, name string) truth {
	if !slices.ContainsFunc(p.Namespaces, func(ns corev1.Namespace) bool { return ns.Name == name }) {
		return maybe
	}
	return known3(p.namespaceMatches(selector, name))
}

// said is a rule at work: by is the verdict where it decides, but for Allowed.
type said struct {
	by     Side
	action v1alpha2.ClusterNetworkPolicyRuleAction
	match  truth
}

// decide goes through the rules of all tiers, in order, after some that passed the traffic on.
func decide(rules []said, passed []Side) Side {
	doubt := false
	for i, r := range rules {
		s := r.by
		s.Passed, s.Doubt = passed, doubt || r.match == maybe
		switch {
		case r.match == no:
			continue
		case r.action == v1alpha2.ClusterNetworkPolicyRuleActionDeny:
			return s
		case r.match == yes && r.action == v1alpha2.ClusterNetworkPolicyRuleActionAccept:
			s.Allowed = true
			return s
		case r.action == v1alpha2.ClusterNetworkPolicyRuleActionPass:
			later := slices.DeleteFunc(slices.Clone(rules[i:]), func(next said) bool { return next.by.Tier == r.by.Tier })
			if s := decide(later, append(slices.Clone(passed), r.by)); r.match == yes || !s.Allowed {
				s.Doubt = s.Doubt || doubt || r.match == maybe
				return s
			}
		}
		doubt = true
	}
	return Side{Allowed: true, Passed: passed, Doubt: doubt}
}

// rules returns the rules of a tier that a pod is subject to, in order: by priority,
// then by name of the policy, then as they are written.
func (p packet) rules(pod *corev1.Pod, direction networkingv1.PolicyType, tier v1alpha2.Tier) (all []said) {
	policies := slices.SortedFunc(slices.Values(p.ClusterPolicies), func(a, b v1alpha2.ClusterNetworkPolicy) int {
		return cmp.Or(cmp.Compare(a.Spec.Priority, b.Spec.Priority), cmp.Compare(a.Name, b.Name))
	})
	for _, cnp := range policies {
		subject := p.isSubject(cnp.Spec.Subject, pod)
		if subject == no || cnp.Spec.Tier != tier {
			continue
		}
		for _, r := range p.ofPolicy(cnp, direction) {
			if subject == maybe || unread(cnp.Spec.Subject.Namespaces, cnp.Spec.Subject.Pods) {
				switch {
				case r.action == v1alpha2.ClusterNetworkPolicyRuleActionAccept:
					continue
				case r.match == yes:
					r.match = maybe
				}
				r.action = v1alpha2.ClusterNetworkPolicyRuleActionDeny
			}
			r.by.Policy, r.by.Tier = "ClusterNetworkPolicy/"+cnp.Name, tier
			all = append(all, r)
		}
	}
	return all
}

// unread reports whether a selector is there that cannot be read.
func unread(selector *metav1.LabelSelector, pods *v1alpha2.NamespacedPod) bool {
	all := []*metav1.LabelSelector{selector}
	if pods != nil {
		all = append(all, &pods.NamespaceSelector, &pods.PodSelector)
	}
	return slices.ContainsFunc(all, func(s *metav1.LabelSelector) bool { _, err := metav1.LabelSelectorAsSelector(s); return err != nil })
}

// ofPolicy holds the packet against each rule of a policy.
func (p packet) ofPolicy(cnp v1alpha2.ClusterNetworkPolicy, direction networkingv1.PolicyType) (all []said) {
	if direction == networkingv1.PolicyTypeEgress {
		for i, r := range cnp.Spec.Egress {
			all = append(all, p.said(i, r.Action, r.To, r.Protocols, p.dst, true))
		}
		return all
	}
	for i, r := range cnp.Spec.Ingress {
		var peers []v1alpha2.ClusterNetworkPolicyEgressPeer // which have all fields of the others
		for _, from := range r.From {
			peers = append(peers, v1alpha2.ClusterNetworkPolicyEgressPeer{Namespaces: from.Namespaces, Pods: from.Pods})
		}
		all = append(all, p.said(i, r.Action, peers, r.Protocols, p.src, false))
	}
	return all
}

// said holds the packet against one rule. A rule with a part that cannot be read, or is
// not known, accepts nothing, and denies everything where it would deny or pass. Names
// of domains are known, and mean nobody to an Accept. peerServes: e is the destination.
func (p packet) said(index int, action v1alpha2.ClusterNetworkPolicyRuleAction, peers []v1alpha2.ClusterNetworkPolicyEgressPeer, protocols []v1alpha2.ClusterNetworkPolicyProtocol, e end, peerServes bool) said {
	r := said{by: Side{Rule: index}, action: action}
	accepts := action == v1alpha2.ClusterNetworkPolicyRuleActionAccept
	unclear := slices.ContainsFunc(peers, unreadable) || slices.ContainsFunc(protocols, func(x v1alpha2.ClusterNetworkPolicyProtocol) bool {
		return x.TCP == nil && x.UDP == nil && x.SCTP == nil && x.DestinationNamedPort == ""
	})
	domains := slices.ContainsFunc(peers, func(x v1alpha2.ClusterNetworkPolicyEgressPeer) bool { return x.DomainNames != nil })
	switch {
	case unclear && accepts:
		return r
	case (unclear || domains) && !accepts:
		r.action, r.match = v1alpha2.ClusterNetworkPolicyRuleActionDeny, yes
		return r
	}
	for _, peer := range peers {
		r.match = max(r.match, p.isPeer(peer, e))
	}
	if len(protocols) > 0 {
		meant := no
		for _, x := range protocols {
			meant = max(meant, p.inProtocol(x, peerServes))
		}
		r.match = min(r.match, meant)
	}
	return r
}

// unreadable reports whether a peer has no field that is known, or a selector that is
// none.
func unreadable(peer v1alpha2.ClusterNetworkPolicyEgressPeer) bool {
	empty := peer.Namespaces == nil && peer.Pods == nil && peer.Nodes == nil && peer.Networks == nil && peer.DomainNames == nil
	return empty || unread(peer.Namespaces, peer.Pods) || unread(peer.Nodes, nil)
}

// isPeer reports whether a peer means the end. Whose address is in doubt may be any pod.
func (p packet) isPeer(peer v1alpha2.ClusterNetworkPolicyEgressPeer, e end) truth {
	switch {
	case peer.Networks != nil:
		return known3(slices.ContainsFunc(peer.Networks, func(cidr v1alpha2.CIDR) bool {
			prefix, err := netip.ParsePrefix(string(cidr))
			return err == nil && prefix.Masked().Contains(e.addr)
		}))
	case peer.Nodes != nil:
		return known3(slices.ContainsFunc(p.Nodes, func(n corev1.Node) bool {
			return matches(peer.Nodes, n.Labels) && slices.ContainsFunc(n.Status.Addresses, func(a corev1.NodeAddress) bool {
				return a.Address == e.addr.String()
			})
		}))
	case peer.DomainNames != nil:
		return no
	case e.doubtful:
		return maybe
	case e.pod == nil:
		return no
	case peer.Namespaces != nil:
		return p.inNamespaces(peer.Namespaces, e.pod.Namespace)
	}
	in := p.inNamespaces(&peer.Pods.NamespaceSelector, e.pod.Namespace)
	if in == yes && !matches(&peer.Pods.PodSelector, e.pod.Labels) {
		return no
	}
	return in // of a namespace that is not known any pod may be meant
}

// inProtocol reports whether one entry of protocols means the packet. When the peer serves
// it and its address is in doubt, nobody knows which ports it gives names to; who is of a
// namespace that is not known may count as one of these.
func (p packet) inProtocol(x v1alpha2.ClusterNetworkPolicyProtocol, peerServes bool) truth {
	to := func(protocol corev1.Protocol, port *v1alpha2.Port) truth {
		switch {
		case p.protocol != protocol:
			return no
		case port == nil:
			return yes
		case port.Range != nil:
			return known3(port.Range.Start <= int32(p.port) && int32(p.port) <= port.Range.End)
		}
		return known3(port.Number == int32(p.port))
	}
	switch {
	case x.TCP != nil:
		return to(corev1.ProtocolTCP, x.TCP.DestinationPort)
	case x.UDP != nil:
		return to(corev1.ProtocolUDP, x.UDP.DestinationPort)
	case x.SCTP != nil:
		return to(corev1.ProtocolSCTP, x.SCTP.DestinationPort)
	case !known(p.protocol):
		return no
	case peerServes && (p.dst.doubtful || p.dst.pod != nil && p.inNamespaces(&metav1.LabelSelector{}, p.dst.pod.Namespace) == maybe):
		return maybe
	}
	return known3(p.toNamedPort(x.DestinationNamedPort))
}
