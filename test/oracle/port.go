package oracle

import (
	"cmp"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
)

// toAny reports whether one of the ports of a rule matches the packet. A rule without ports matches all
// ports.
func (p packet) toAny(ports []networkingv1.NetworkPolicyPort) bool {
	return len(ports) == 0 || slices.ContainsFunc(ports, p.toPort)
}

func (p packet) toPort(port networkingv1.NetworkPolicyPort) bool {
	protocol := corev1.ProtocolTCP
	if port.Protocol != nil {
		protocol = *port.Protocol
	}
	if protocol != p.protocol || !known(protocol) {
		return false
	}
	switch {
	case port.Port == nil:
		return port.EndPort == nil // an end without a beginning is malformed
	case port.Port.Type == intstr.Int:
		first, last := port.Port.IntVal, port.Port.IntVal
		if port.EndPort != nil {
			last = *port.EndPort
		}
		wellFormed := 1 <= first && first <= last && last <= math.MaxUint16
		return wellFormed && first <= int32(p.port) && int32(p.port) <= last
	}
	wellFormed := port.EndPort == nil && len(validation.IsValidPortName(port.Port.StrVal)) == 0
	return wellFormed && p.toNamedPort(port.Port.StrVal)
}

func known(protocol corev1.Protocol) bool {
	return protocol == corev1.ProtocolTCP || protocol == corev1.ProtocolUDP || protocol == corev1.ProtocolSCTP
}

// toNamedPort reports whether the packet goes to the port with the name at the destination pod, for ingress
// and egress. An end that is not a pod has no named ports.
func (p packet) toNamedPort(name string) bool {
	if p.dst.pod == nil {
		return false
	}
	for _, container := range running(p.dst.pod) {
		for _, port := range container.Ports {
			if port.Name == name && cmp.Or(port.Protocol, corev1.ProtocolTCP) == p.protocol {
				return port.ContainerPort == int32(p.port)
			}
		}
	}
	return false
}

// running returns the containers that run as long as the pod: the regular containers, and then the
// restartable init containers (sidecars).
func running(pod *corev1.Pod) []corev1.Container {
	return slices.Concat(pod.Spec.Containers, slices.DeleteFunc(slices.Clone(pod.Spec.InitContainers), func(c corev1.Container) bool {
		return c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways
	}))
}
