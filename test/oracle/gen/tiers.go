package gen

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

var (
	nodeLabels = vocabulary{"pool": {"v1", "v2"}, "w.io/x": {"", "v1"}}
	networks   = append(slices.Clone(cidrs), "fd00::/64", "::/0")
	actions    = []v1alpha2.ClusterNetworkPolicyRuleAction{
		v1alpha2.ClusterNetworkPolicyRuleActionAccept, v1alpha2.ClusterNetworkPolicyRuleActionDeny, v1alpha2.ClusterNetworkPolicyRuleActionPass,
	}
)

// node draws a node. Its addresses are independent of the addresses that the dataplane has of its own node.
func (g *Gen) node(name string) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: g.labels(nodeLabels)}}
	for range g.between(0, 2, "addresses of a node") {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{
			Type: corev1.NodeInternalIP, Address: pick(g, nodeAddrs, "address of a node").String(),
		})
	}
	return n
}

// clusterPolicy draws a policy. There are few priorities, so that some are equal.
func (g *Gen) clusterPolicy() v1alpha2.ClusterNetworkPolicy {
	cnp := v1alpha2.ClusterNetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: pick(g, policyNames, "cluster policy name")},
		Spec: v1alpha2.ClusterNetworkPolicySpec{
			Tier:     pick(g, []v1alpha2.Tier{v1alpha2.AdminTier, v1alpha2.AdminTier, v1alpha2.BaselineTier}, "tier"),
			Priority: pick(g, []int32{5, 0, 1000, 6, 999}, "priority"),
		},
	}
	cnp.Spec.Subject.Namespaces, cnp.Spec.Subject.Pods = g.namespacesOrPods()
	cnp.Spec.Ingress = some(g, 4, "cluster ingress rule", func() (r v1alpha2.ClusterNetworkPolicyIngressRule) {
		r.Action, r.Protocols = pick(g, actions, "action"), some(g, 2, "protocol", g.clusterProtocol)
		r.From = few(g, 2, "from", func() (peer v1alpha2.ClusterNetworkPolicyIngressPeer) {
			if !g.oneIn(48, "peer of a later version") {
				peer.Namespaces, peer.Pods = g.namespacesOrPods()
			}
			return peer
		})
		return r
	})
	cnp.Spec.Egress = some(g, 4, "cluster egress rule", func() (r v1alpha2.ClusterNetworkPolicyEgressRule) {
		r.Action, r.Protocols = pick(g, actions, "action"), some(g, 2, "protocol", g.clusterProtocol)
		named := slices.ContainsFunc(r.Protocols, func(x v1alpha2.ClusterNetworkPolicyProtocol) bool { return x.DestinationNamedPort != "" })
		r.To = few(g, 2, "to", func() v1alpha2.ClusterNetworkPolicyEgressPeer { return g.egressPeer(named) })
		return r
	})
	return cnp
}

func (g *Gen) namespacesOrPods() (*metav1.LabelSelector, *v1alpha2.NamespacedPod) {
	if g.Flip("pods") {
		return nil, &v1alpha2.NamespacedPod{NamespaceSelector: *g.selector(namespaceLabels), PodSelector: *g.selector(podLabels)}
	}
	return g.selector(namespaceLabels), nil
}

// egressPeer draws a peer. With named ports it selects pods, as the API requires.
func (g *Gen) egressPeer(named bool) v1alpha2.ClusterNetworkPolicyEgressPeer {
	var peer v1alpha2.ClusterNetworkPolicyEgressPeer
	switch kind := g.between(0, 15, "egress peer"); {
	case named || kind < 8:
		peer.Namespaces, peer.Pods = g.namespacesOrPods()
	case kind < 12:
		peer.Networks = few(g, 2, "networks", func() v1alpha2.CIDR { return v1alpha2.CIDR(pick(g, networks, "network")) })
	case kind < 14:
		peer.Nodes = g.selector(nodeLabels)
	case kind == 14:
		peer.DomainNames = []v1alpha2.DomainName{"*.example.com"}
	}
	return peer // without a known field: a peer of a later API version
}

func (g *Gen) clusterProtocol() v1alpha2.ClusterNetworkPolicyProtocol {
	if g.oneIn(4, "named") {
		return v1alpha2.ClusterNetworkPolicyProtocol{DestinationNamedPort: pick(g, portNames, "named port")}
	}
	port := &v1alpha2.Port{Number: pick(g, portNumbers, "number")}
	if g.oneIn(3, "range") && port.Number < 65535 {
		port = &v1alpha2.Port{Range: &v1alpha2.PortRange{Start: port.Number, End: min(port.Number+pick(g, rangeLengths[1:], "range"), 65535)}}
	}
	switch pick(g, protocols, "protocol") {
	case corev1.ProtocolTCP:
		return v1alpha2.ClusterNetworkPolicyProtocol{TCP: &v1alpha2.ClusterNetworkPolicyProtocolTCP{DestinationPort: port}}
	case corev1.ProtocolUDP:
		return v1alpha2.ClusterNetworkPolicyProtocol{UDP: &v1alpha2.ClusterNetworkPolicyProtocolUDP{DestinationPort: port}}
	default:
		return v1alpha2.ClusterNetworkPolicyProtocol{SCTP: &v1alpha2.ClusterNetworkPolicyProtocolSCTP{DestinationPort: port}}
	}
}
