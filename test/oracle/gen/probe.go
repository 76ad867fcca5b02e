package gen

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/test/oracle"
)

// Probe is a port to ask about.
type Probe struct {
	Protocol corev1.Protocol
	Port     uint16
}

// Probes draws up to n different ports, most of them where a verdict may
// change: the ports of rules and of containers, the ends of ranges and their
// neighbours.
func (g *Gen) Probes(c oracle.Cluster, n int) []Probe {
	var candidates []Probe
	for _, np := range c.Policies {
		for _, rule := range np.Spec.Ingress {
			candidates = append(candidates, edges(rule.Ports)...)
		}
		for _, rule := range np.Spec.Egress {
			candidates = append(candidates, edges(rule.Ports)...)
		}
	}
	for _, cnp := range c.ClusterPolicies {
		for _, rule := range cnp.Spec.Ingress {
			candidates = append(candidates, clusterEdges(rule.Protocols)...)
		}
		for _, rule := range cnp.Spec.Egress {
			candidates = append(candidates, clusterEdges(rule.Protocols)...)
		}
	}
	for _, pod := range c.Pods {
		for _, container := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
			for _, port := range container.Ports {
				candidates = append(candidates, Probe{cmp.Or(port.Protocol, corev1.ProtocolTCP), uint16(port.ContainerPort)})
			}
		}
	}
	var probes []Probe
	for range n {
		p := Probe{pick(g, protocols, "probe protocol"), uint16(pick(g, portNumbers, "probe port"))}
		if len(candidates) > 0 && !g.oneIn(4, "any probe") {
			p = pick(g, candidates, "probe")
		}
		if !slices.Contains(probes, p) {
			probes = append(probes, p)
		}
	}
	return probes
}

// edges returns the numbers of ports, of ranges those just inside and outside.
func edges(ports []networkingv1.NetworkPolicyPort) []Probe {
	var probes []Probe
	for _, port := range ports {
		protocol := corev1.ProtocolTCP
		if port.Protocol != nil {
			protocol = *port.Protocol
		}
		if !slices.Contains(protocols, protocol) || port.Port == nil || port.Port.Type == intstr.String {
			continue
		}
		numbers := []int32{port.Port.IntVal}
		if port.EndPort != nil {
			numbers = []int32{port.Port.IntVal - 1, port.Port.IntVal, *port.EndPort, *port.EndPort + 1}
		}
		for _, number := range numbers {
			if 0 < number && number <= 65535 {
				probes = append(probes, Probe{protocol, uint16(number)})
			}
		}
	}
	return probes
}

// clusterEdges is edges of the ports of a ClusterNetworkPolicy.
func clusterEdges(all []v1alpha2.ClusterNetworkPolicyProtocol) (probes []Probe) {
	add := func(protocol corev1.Protocol, port *v1alpha2.Port) {
		numbers := []int32{port.Number}
		if port.Range != nil {
			numbers = []int32{port.Range.Start - 1, port.Range.Start, port.Range.End, port.Range.End + 1}
		}
		for _, number := range numbers {
			if 0 < number && number <= 65535 {
				probes = append(probes, Probe{protocol, uint16(number)})
			}
		}
	}
	for _, x := range all {
		switch {
		case x.TCP != nil:
			add(corev1.ProtocolTCP, x.TCP.DestinationPort)
		case x.UDP != nil:
			add(corev1.ProtocolUDP, x.UDP.DestinationPort)
		case x.SCTP != nil:
			add(corev1.ProtocolSCTP, x.SCTP.DestinationPort)
		}
	}
	return probes
}
