package policy_test

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

var (
	actions = []v1alpha2.ClusterNetworkPolicyRuleAction{
		v1alpha2.ClusterNetworkPolicyRuleActionAccept, v1alpha2.ClusterNetworkPolicyRuleActionDeny, v1alpha2.ClusterNetworkPolicyRuleActionPass,
	}
	ipv6 = []string{"fd00::/8", "::/0"}
)

func (s shape) clusterPolicy(t *rapid.T) *v1alpha2.ClusterNetworkPolicy {
	cnp := &v1alpha2.ClusterNetworkPolicy{}
	cnp.Name = "p"
	cnp.Spec.Tier = pick(t, []v1alpha2.Tier{v1alpha2.AdminTier, v1alpha2.BaselineTier}, "tier")
	cnp.Spec.Priority = rapid.Int32Range(0, 1000).Draw(t, "priority")
	if rapid.Bool().Draw(t, "pods") {
		cnp.Spec.Subject.Pods = s.namespacedPod(t)
	} else {
		cnp.Spec.Subject.Namespaces = new(s.selector(t))
	}
	if s.broken(t) {
		switch rapid.IntRange(0, 2).Draw(t, "how") {
		case 0:
			cnp.Spec.Tier = "admin"
		case 1:
			cnp.Spec.Priority = pick(t, []int32{-1, 1001}, "priority")
		case 2:
			cnp.Spec.Subject = v1alpha2.ClusterNetworkPolicySubject{}
		}
	}
	cnp.Spec.Ingress = list(t, 3, func() v1alpha2.ClusterNetworkPolicyIngressRule {
		r := v1alpha2.ClusterNetworkPolicyIngressRule{Action: s.action(t), Protocols: s.clusterProtocols(t)}
		for _, p := range s.clusterPeers(t, 2) {
			r.From = append(r.From, v1alpha2.ClusterNetworkPolicyIngressPeer{Namespaces: p.Namespaces, Pods: p.Pods})
		}
		return r
	})
	cnp.Spec.Egress = list(t, 3, func() v1alpha2.ClusterNetworkPolicyEgressRule {
		return v1alpha2.ClusterNetworkPolicyEgressRule{Action: s.action(t), To: s.clusterPeers(t, 5), Protocols: s.clusterProtocols(t)}
	})
	return cnp
}

func (s shape) action(t *rapid.T) v1alpha2.ClusterNetworkPolicyRuleAction {
	if s.broken(t) {
		return "Log"
	}
	return pick(t, actions, "action")
}

func (s shape) namespacedPod(t *rapid.T) *v1alpha2.NamespacedPod {
	return &v1alpha2.NamespacedPod{NamespaceSelector: s.selector(t), PodSelector: s.selector(t)}
}

// clusterPeers draws peers of the first kinds: namespaces, pods, nodes, networks, domain
// names.
func (s shape) clusterPeers(t *rapid.T, kinds int) []v1alpha2.ClusterNetworkPolicyEgressPeer {
	if s.broken(t) {
		return nil
	}
	var out []v1alpha2.ClusterNetworkPolicyEgressPeer
	for range rapid.IntRange(1, 3).Draw(t, "peers") {
		var p v1alpha2.ClusterNetworkPolicyEgressPeer
		s.setPeer(t, &p, kinds)
		if s.broken(t) {
			if p = (v1alpha2.ClusterNetworkPolicyEgressPeer{}); rapid.Bool().Draw(t, "two") {
				p.Namespaces, p.Pods = &metav1.LabelSelector{}, &v1alpha2.NamespacedPod{}
			}
		}
		out = append(out, p)
	}
	return out
}

func (s shape) setPeer(t *rapid.T, p *v1alpha2.ClusterNetworkPolicyEgressPeer, kinds int) {
	switch rapid.IntRange(1, kinds).Draw(t, "kind") {
	case 1:
		p.Namespaces = new(s.selector(t))
	case 2:
		p.Pods = s.namespacedPod(t)
	case 3:
		p.Nodes = new(s.selector(t))
	case 4:
		for range rapid.IntRange(1, 3).Draw(t, "networks") {
			from := [][]string{cidrs, ipv6}[rapid.IntRange(0, 5).Draw(t, "version")/5]
			if s.broken(t) {
				from = []string{"", "10.0.0.0", "10.0.0.0/33", "::ffff:10.0.0.0/104"}
			}
			p.Networks = append(p.Networks, v1alpha2.CIDR(pick(t, from, "network")))
		}
	case 5:
		p.DomainNames = []v1alpha2.DomainName{"a.example"}
	}
}

func (s shape) clusterProtocols(t *rapid.T) []v1alpha2.ClusterNetworkPolicyProtocol {
	return list(t, 3, func() v1alpha2.ClusterNetworkPolicyProtocol {
		if rapid.IntRange(0, 3).Draw(t, "named") == 0 {
			name := pick(t, portNames, "name")
			if s.broken(t) {
				name = pick(t, badNames, "name") // "" is an entry without a field
			}
			return v1alpha2.ClusterNetworkPolicyProtocol{DestinationNamedPort: name}
		}
		port := &v1alpha2.Port{Number: rapid.Int32Range(1, 8).Draw(t, "number")}
		if rapid.Bool().Draw(t, "range") {
			first := rapid.Int32Range(1, 8).Draw(t, "start")
			port = &v1alpha2.Port{Range: &v1alpha2.PortRange{Start: first, End: rapid.Int32Range(first+1, 9).Draw(t, "end")}}
		}
		if s.broken(t) {
			port = pick(t, []*v1alpha2.Port{
				nil, {}, {Number: 70000}, {Number: -1}, {Range: &v1alpha2.PortRange{}},
				{Range: &v1alpha2.PortRange{Start: 3, End: 2}}, {Number: 1, Range: &v1alpha2.PortRange{Start: 2, End: 3}},
			}, "bad port")
		}
		switch pick(t, protocols, "protocol") {
		case "TCP":
			return v1alpha2.ClusterNetworkPolicyProtocol{TCP: &v1alpha2.ClusterNetworkPolicyProtocolTCP{DestinationPort: port}}
		case "UDP":
			return v1alpha2.ClusterNetworkPolicyProtocol{UDP: &v1alpha2.ClusterNetworkPolicyProtocolUDP{DestinationPort: port}}
		default:
			return v1alpha2.ClusterNetworkPolicyProtocol{SCTP: &v1alpha2.ClusterNetworkPolicyProtocolSCTP{DestinationPort: port}}
		}
	})
}
