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

// truth is the truth value of a statement, which may be unknown.
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

// tiered reports whether a ClusterNetworkPolicy selects, or may select, a pod.
func (p packet) tiered(pod *corev1.Pod) bool {
	return slices.ContainsFunc(p.ClusterPolicies, func(cnp v1alpha2.ClusterNetworkPolicy) bool { return p.isSubject(cnp.Spec.Subject, pod) != no })
}

// isSubject reports whether a policy selects a pod, which must not be in the host network. An unreadable
// selector selects every pod.
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

// inNamespaces reports whether a selector matches a namespace. It returns maybe if the namespace has no
// object.
func (p packet) inNamespaces(selector *metav1.LabelSelector, name string) truth {
	if !slices.ContainsFunc(p.Namespaces, func(ns corev1.Namespace) bool { return ns.Name == name }) {
		return maybe
	}
	return known3(p.namespaceMatches(selector, name))
}

// said is the result of one rule for the packet: by is the verdict if the rule decides, without Allowed.
type said struct {
	by     Side
	action v1alpha2.ClusterNetworkPolicyRuleAction
	match  truth
}

// decide returns the verdict of the rules of all tiers, which are in order. passed are the Pass rules
// before them.
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

// rules returns the rules of a tier for a pod, ordered by priority, then by name of the policy, then by
// index.
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

// unread reports whether one of the selectors is set but unreadable.
func unread(selector *metav1.LabelSelector, pods *v1alpha2.NamespacedPod) bool {
	all := []*metav1.LabelSelector{selector}
	if pods != nil {
		all = append(all, &pods.NamespaceSelector, &pods.PodSelector)
	}
	return slices.ContainsFunc(all, func(s *metav1.LabelSelector) bool { _, err := metav1.LabelSelectorAsSelector(s); return err != nil })
}

// ofPolicy compares the packet with each rule of a policy.
func (p packet) ofPolicy(cnp v1alpha2.ClusterNetworkPolicy, direction networkingv1.PolicyType) (all []said) {
	if direction == networkingv1.PolicyTypeEgress {
		for i, r := range cnp.Spec.Egress {
			all = append(all, p.said(i, r.Action, r.To, r.Protocols, p.dst, true))
		}
		return all
	}
	for i, r := range cnp.Spec.Ingress {
		var peers []v1alpha2.ClusterNetworkPolicyEgressPeer // also for ingress: egress peers have all fields of ingress peers
		for _, from := range r.From {
			peers = append(peers, v1alpha2.ClusterNetworkPolicyEgressPeer{Namespaces: from.Namespaces, Pods: from.Pods})
		}
		all = append(all, p.said(i, r.Action, peers, r.Protocols, p.src, false))
	}
	return all
}

// said compares the packet with one rule. A rule with an unreadable or unknown part accepts nothing if its
// action is Accept, and else denies everything. A domain name is a known peer, but matches no end in an
// Accept rule. peerServes reports whether the peer is the destination.
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

// unreadable reports whether a peer has no known field, or an unreadable selector.
func unreadable(peer v1alpha2.ClusterNetworkPolicyEgressPeer) bool {
	empty := peer.Namespaces == nil && peer.Pods == nil && peer.Nodes == nil && peer.Networks == nil && peer.DomainNames == nil
	return empty || unread(peer.Namespaces, peer.Pods) || unread(peer.Nodes, nil)
}

// isPeer reports whether a peer matches the end. An end whose address is in doubt may be any pod.
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
	return in // any pod of a namespace without an object may match
}

// inProtocol reports whether one entry of protocols matches the packet. If the peer is the destination and
// its address is in doubt, or its namespace has no object, its named ports are unknown.
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
