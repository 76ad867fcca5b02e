package gen

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func (g *Gen) policy(namespace, name string) networkingv1.NetworkPolicy {
	np := networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       networkingv1.NetworkPolicySpec{PodSelector: *g.selector(podLabels)},
	}
	if g.oneIn(2, "any pod") {
		np.Spec.PodSelector = metav1.LabelSelector{}
	}
	if g.Flip("empty, not nil") { // which must not matter
		np.Spec.Ingress, np.Spec.Egress = []networkingv1.NetworkPolicyIngressRule{}, []networkingv1.NetworkPolicyEgressRule{}
	}
	g.Some(3, "ingress rule", func() {
		np.Spec.Ingress = append(np.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{From: g.peers(), Ports: g.ports()})
	})
	g.Some(3, "egress rule", func() {
		np.Spec.Egress = append(np.Spec.Egress, networkingv1.NetworkPolicyEgressRule{To: g.peers(), Ports: g.ports()})
	})
	const in, out = networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress
	np.Spec.PolicyTypes = pick(g, [][]networkingv1.PolicyType{
		nil, {in}, {out}, {in, out}, {out, in}, {}, {"Sideways"}, {"Sideways", out},
	}, "policyTypes")
	return np
}

func (g *Gen) peers() []networkingv1.NetworkPolicyPeer {
	peers := []networkingv1.NetworkPolicyPeer{} // empty is as good as nil
	g.Some(3, "peer", func() { peers = append(peers, g.peer()) })
	return peers
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
	default:
		return g.malformedPeer()
	}
}

func (g *Gen) malformedPeer() networkingv1.NetworkPolicyPeer {
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

func (g *Gen) ipBlock() *networkingv1.IPBlock {
	if g.oneIn(8, "IPv6") {
		return &networkingv1.IPBlock{
			CIDR:   pick(g, []string{"::/0", "fd00::/64", "::ffff:10.0.0.0/120"}, "IPv6 cidr"),
			Except: pick(g, [][]string{nil, {"fd00::/80"}}, "IPv6 except"),
		}
	}
	block := &networkingv1.IPBlock{CIDR: pick(g, []string{
		"0.0.0.0/0", "10.0.0.0/24", "10.0.0.0/29", "10.0.0.5/30", "172.16.0.0/12", "192.168.0.0/16", "10.0.0.2/32", "8.0.0.0/6", "10.0.0.9/24", "172.16.5.9/12",
	}, "cidr")}
	cidr := netip.MustParsePrefix(block.CIDR)
	g.Some(2, "except", func() { block.Except = append(block.Except, g.except(cidr)) })
	return block
}

// except draws a part of the block, the whole block included, near an address
// that may be in use.
func (g *Gen) except(cidr netip.Prefix) string {
	addr := pick(g, append([]netip.Addr{cidr.Addr(), nodeAddrs[0], outerAddrs[0], outerAddrs[2]}, podAddrs...), "excepted")
	if !cidr.Contains(addr) {
		addr = cidr.Addr()
	}
	bits := g.between(0, 32-cidr.Bits(), "except size")
	return fmt.Sprintf("%v/%d", addr, 32-bits) // host bits may be set
}

func (g *Gen) ports() []networkingv1.NetworkPolicyPort {
	ports := []networkingv1.NetworkPolicyPort{}
	g.Some(3, "port", func() { ports = append(ports, g.port()) })
	return ports
}

func (g *Gen) port() networkingv1.NetworkPolicyPort {
	var port networkingv1.NetworkPolicyPort
	if !g.oneIn(4, "default protocol") {
		protocol := pick(g, protocols, "protocol")
		port.Protocol = &protocol
	}
	number := pick(g, portNumbers, "number")
	value := intstr.FromInt32(number)
	switch g.between(0, 7, "port") {
	case 0:
	case 1, 2:
		port.Port = &value
	case 3, 4:
		end := min(number+pick(g, rangeLengths, "range"), 65535)
		port.Port, port.EndPort = &value, &end
	case 5, 6:
		name := intstr.FromString(pick(g, portNames, "named port"))
		port.Port = &name
	default:
		g.malformedPort(&port)
	}
	return port
}

func (g *Gen) malformedPort(port *networkingv1.NetworkPolicyPort) {
	number := func(n int32) *intstr.IntOrString { v := intstr.FromInt32(n); return &v }
	text := func(s string) *intstr.IntOrString { v := intstr.FromString(s); return &v }
	end := func(n int32) *int32 { return &n }
	bad := pick(g, []networkingv1.NetworkPolicyPort{
		{Port: number(0)}, {Port: number(65536)}, {Port: number(-1)}, {Port: number(65536 + 80)},
		{Port: number(80), EndPort: end(53)}, {Port: number(80), EndPort: end(65536)}, {EndPort: end(80)},
		{Port: text("http"), EndPort: end(8080)}, {Port: text("")}, {Port: text("80")}, {Port: text("no name")},
	}, "malformed port")
	port.Port, port.EndPort = bad.Port, bad.EndPort
	if g.oneIn(4, "malformed protocol") {
		protocol := pick(g, []corev1.Protocol{"ICMP", "tcp", ""}, "bad protocol")
		*port = networkingv1.NetworkPolicyPort{Protocol: &protocol}
	}
}
