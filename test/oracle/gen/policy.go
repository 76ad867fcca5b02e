package gen

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func (g *Gen) policy() networkingv1.NetworkPolicy {
	const in, out = networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress
	np := networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: pick(g, g.namespaces, "policy namespace"), Name: pick(g, policyNames, "policy name")},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: *g.selector(podLabels),
			Ingress: some(g, 3, "ingress rule", func() networkingv1.NetworkPolicyIngressRule {
				return networkingv1.NetworkPolicyIngressRule{From: some(g, 3, "peer", g.peer), Ports: some(g, 3, "port", g.port)}
			}),
			Egress: some(g, 3, "egress rule", func() networkingv1.NetworkPolicyEgressRule {
				return networkingv1.NetworkPolicyEgressRule{To: some(g, 3, "peer", g.peer), Ports: some(g, 3, "port", g.port)}
			}),
			PolicyTypes: pick(g, [][]networkingv1.PolicyType{
				nil, {in}, {out}, {in, out}, {out, in}, {}, {"Sideways"}, {"Sideways", out},
			}, "policyTypes"),
		},
	}
	if g.oneIn(2, "any pod") {
		np.Spec.PodSelector = metav1.LabelSelector{}
	}
	return np
}

func (g *Gen) peer() networkingv1.NetworkPolicyPeer {
	switch g.between(0, 7, "peer") {
	case 0:
		return networkingv1.NetworkPolicyPeer{PodSelector: g.selector(podLabels)}
	case 1:
		return networkingv1.NetworkPolicyPeer{NamespaceSelector: g.selector(namespaceLabels)}
	case 2, 3, 4:
		return networkingv1.NetworkPolicyPeer{NamespaceSelector: g.selector(namespaceLabels), PodSelector: g.selector(podLabels)}
	case 5, 6:
		return networkingv1.NetworkPolicyPeer{IPBlock: g.ipBlock()}
	}
	return pick(g, []networkingv1.NetworkPolicyPeer{
		{},
		{IPBlock: &networkingv1.IPBlock{CIDR: "0.0.0.0/0"}, PodSelector: &metav1.LabelSelector{}},
		{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/24"}, NamespaceSelector: &metav1.LabelSelector{}},
		{IPBlock: &networkingv1.IPBlock{}},
		{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.1"}},
		{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/33"}},
		{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/24", Except: []string{"172.16.0.0/12"}}},
		{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/24", Except: []string{"10.0.0.0/8"}}},
		{IPBlock: &networkingv1.IPBlock{CIDR: "0.0.0.0/0", Except: []string{"10.0.0.1"}}},
		{IPBlock: &networkingv1.IPBlock{CIDR: "0.0.0.0/0", Except: []string{"fd00::/64"}}},
	}, "malformed peer")
}

// cidrs are blocks of IPv4 addresses.
var cidrs = []string{
	"0.0.0.0/0", "10.0.0.0/24", "10.0.0.0/29", "10.0.0.5/30", "172.16.0.0/12", "192.168.0.0/16", "10.0.0.2/32", "8.0.0.0/6", "10.0.0.9/24", "172.16.5.9/12",
}

func (g *Gen) ipBlock() *networkingv1.IPBlock {
	if g.oneIn(8, "IPv6") {
		return &networkingv1.IPBlock{
			CIDR:   pick(g, []string{"::/0", "fd00::/64", "::ffff:10.0.0.0/120"}, "IPv6 cidr"),
			Except: pick(g, [][]string{nil, {"fd00::/80"}}, "IPv6 except"),
		}
	}
	block := &networkingv1.IPBlock{CIDR: pick(g, cidrs, "cidr")}
	cidr := netip.MustParsePrefix(block.CIDR)
	block.Except = some(g, 2, "except", func() string { return g.except(cidr) })
	return block
}

// except draws a part of the block, or the whole block, near an address that may be in use.
func (g *Gen) except(cidr netip.Prefix) string {
	addr := pick(g, append([]netip.Addr{cidr.Addr(), nodeAddrs[0], outerAddrs[0], outerAddrs[2]}, podAddrs...), "excepted")
	if !cidr.Contains(addr) {
		addr = cidr.Addr()
	}
	bits := g.between(0, 32-cidr.Bits(), "except size")
	return fmt.Sprintf("%v/%d", addr, 32-bits) // host bits may be set
}

func (g *Gen) port() networkingv1.NetworkPolicyPort {
	var port networkingv1.NetworkPolicyPort
	if !g.oneIn(4, "default protocol") {
		port.Protocol = new(pick(g, protocols, "protocol"))
	}
	number := pick(g, portNumbers, "number")
	switch g.between(0, 7, "port") {
	case 0:
	case 1, 2:
		port.Port = new(intstr.FromInt32(number))
	case 3, 4:
		port.Port, port.EndPort = new(intstr.FromInt32(number)), new(min(number+pick(g, rangeLengths, "range"), 65535))
	case 5, 6:
		port.Port = new(intstr.FromString(pick(g, portNames, "named port")))
	default:
		bad := pick(g, malformedPorts, "malformed port")
		port.Port, port.EndPort = bad.Port, bad.EndPort
		if g.oneIn(4, "malformed protocol") {
			return networkingv1.NetworkPolicyPort{Protocol: new(pick(g, []corev1.Protocol{"ICMP", "tcp", ""}, "bad protocol"))}
		}
	}
	return port
}

// malformedPorts are ports that the API server rejects, for any protocol.
var malformedPorts = []networkingv1.NetworkPolicyPort{
	{Port: new(intstr.FromInt32(0))}, {Port: new(intstr.FromInt32(65536))}, {Port: new(intstr.FromInt32(-1))}, {Port: new(intstr.FromInt32(65536 + 80))},
	{Port: new(intstr.FromInt32(80)), EndPort: new(int32(53))}, {Port: new(intstr.FromInt32(80)), EndPort: new(int32(65536))}, {EndPort: new(int32(80))},
	{Port: new(intstr.FromString("http")), EndPort: new(int32(8080))},
	{Port: new(intstr.FromString(""))}, {Port: new(intstr.FromString("80"))}, {Port: new(intstr.FromString("no name"))},
}
