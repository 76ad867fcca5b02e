package gen

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/test/oracle"
)

var (
	nodeLabels = vocabulary{"pool": {"v1", "v2"}, "w.io/x": {"", "v1"}}
	actions    = []v1alpha2.ClusterNetworkPolicyRuleAction{
		v1alpha2.ClusterNetworkPolicyRuleActionAccept, v1alpha2.ClusterNetworkPolicyRuleActionDeny, v1alpha2.ClusterNetworkPolicyRuleActionPass,
	}
)

// addTiers draws nodes and up to five ClusterNetworkPolicies. Every second cluster has an
// object for each of its namespaces, as most of a cluster's life.
func (g *Gen) addTiers(c *oracle.Cluster) {
	if g.Flip("every namespace has an object") {
		for _, name := range g.namespaces {
			g.addNamespace(c, name)
		}
	}
	for _, name := range []string{Node, "n2", "n3"} {
		c.Nodes = append(c.Nodes, g.node(name))
	}
	g.Some(5, "cluster policy", func() { g.createClusterPolicy(c) })
}

// node draws a node. Its addresses have nothing to do with those that the dataplane is
// told of its own node.
func (g *Gen) node(name string) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: g.labels(nodeLabels)}}
	for range g.between(0, 2, "addresses of a node") {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{
			Type: corev1.NodeInternalIP, Address: pick(g, nodeAddrs, "address of a node").String(),
		})
	}
	return n
}

// clusterPolicy draws a policy. Priorities are few, so that some are equal.
func (g *Gen) clusterPolicy(name string) v1alpha2.ClusterNetworkPolicy {
	cnp := v1alpha2.ClusterNetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha2.ClusterNetworkPolicySpec{
			Tier:     pick(g, []v1alpha2.Tier{v1alpha2.AdminTier, v1alpha2.AdminTier, v1alpha2.BaselineTier}, "tier"),
			Priority: pick(g, []int32{5, 0, 1000, 6, 999}, "priority"),
		},
	}
	if g.Flip("subject by pods") {
		cnp.Spec.Subject.Pods = g.namespacedPod()
	} else {
		cnp.Spec.Subject.Namespaces = g.selector(namespaceLabels)
	}
	cnp.Spec.Ingress = some(g, 4, "cluster ingress rule", func() v1alpha2.ClusterNetworkPolicyIngressRule {
		r := v1alpha2.ClusterNetworkPolicyIngressRule{Action: pick(g, actions, "action"), Protocols: g.clusterProtocols()}
		for range g.between(1, 2, "from") {
			namespaces, pods := g.podsOrNamespaces()
			r.From = append(r.From, v1alpha2.ClusterNetworkPolicyIngressPeer{Namespaces: namespaces, Pods: pods})
		}
		if g.oneIn(32, "peer of a later version") {
			r.From = append(r.From, v1alpha2.ClusterNetworkPolicyIngressPeer{})
		}
		return r
	})
	cnp.Spec.Egress = some(g, 4, "cluster egress rule", func() v1alpha2.ClusterNetworkPolicyEgressRule {
		r := v1alpha2.ClusterNetworkPolicyEgressRule{Action: pick(g, actions, "action"), Protocols: g.clusterProtocols()}
		named := slices.ContainsFunc(r.Protocols, func(x v1alpha2.ClusterNetworkPolicyProtocol) bool { return x.DestinationNamedPort != "" })
		for range g.between(1, 2, "to") {
			r.To = append(r.To, g.egressPeer(named))
		}
		return r
	})
	return cnp
}

func (g *Gen) namespacedPod() *v1alpha2.NamespacedPod {
	return &v1alpha2.NamespacedPod{NamespaceSelector: *g.selector(namespaceLabels), PodSelector: *g.selector(podLabels)}
}

func (g *Gen) podsOrNamespaces() (*metav1.LabelSelector, *v1alpha2.NamespacedPod) {
	if g.Flip("pods") {
		return nil, g.namespacedPod()
	}
	return g.selector(namespaceLabels), nil
}

// egressPeer draws a peer; with named ports it is of pods, as the API demands.
func (g *Gen) egressPeer(named bool) v1alpha2.ClusterNetworkPolicyEgressPeer {
	var peer v1alpha2.ClusterNetworkPolicyEgressPeer
	switch kind := g.between(0, 15, "egress peer"); {
	case named || kind < 8:
		peer.Namespaces, peer.Pods = g.podsOrNamespaces()
	case kind < 12:
		for range g.between(1, 2, "networks") {
			peer.Networks = append(peer.Networks, pick(g, []v1alpha2.CIDR{
				"0.0.0.0/0", "10.0.0.0/24", "10.0.0.0/29", "10.0.0.5/30", "172.16.0.0/12", "192.168.0.0/16", "10.0.0.2/32", "fd00::/64", "::/0",
			}, "network"))
		}
	case kind < 14:
		peer.Nodes = g.selector(nodeLabels)
	case kind == 14:
		peer.DomainNames = []v1alpha2.DomainName{"*.example.com"}
	}
	return peer // of a later version, when nothing is set
}

func (g *Gen) clusterProtocols() []v1alpha2.ClusterNetworkPolicyProtocol {
	return some(g, 2, "protocol", g.clusterProtocol)
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
