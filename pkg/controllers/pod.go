package controllers

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/policy"
)

// PodFrom returns what the dataplane wants to know of a pod. The pod is local
// when it is scheduled to node; with node "" every pod is. The result shares
// the label map with the object, which nobody changes.
func PodFrom(p *corev1.Pod, node string) desired.Pod {
	pod := desired.Pod{
		Namespace:   p.Namespace,
		Name:        p.Name,
		UID:         p.UID,
		Labels:      p.Labels,
		Addr:        addrOf(p.Status),
		Ports:       portsOf(p.Spec),
		Local:       node == "" || p.Spec.NodeName == node,
		HostNetwork: p.Spec.HostNetwork,
		Finished:    p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed,
		Deleting:    p.DeletionTimestamp != nil,
		Created:     p.CreationTimestamp.Time,
	}
	if !pod.Local {
		pod.Node = p.Spec.NodeName
	}
	if p.Status.StartTime != nil {
		pod.Started = p.Status.StartTime.Time
	}
	return pod
}

// addrOf returns the pod's first IPv4 address. podIPs has all of them; podIP
// alone is what old clusters and hand-written manifests give.
func addrOf(status corev1.PodStatus) netip.Addr {
	for _, ip := range status.PodIPs {
		if addr, ok := parseIPv4(ip.IP); ok {
			return addr
		}
	}
	addr, _ := parseIPv4(status.PodIP)
	return addr
}

// parseIPv4 returns the zero Addr for anything that is no IPv4 address.
func parseIPv4(text string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(text)
	if err != nil || !addr.Is4() {
		return netip.Addr{}, false
	}
	return addr, true
}

// portsOf lists the named ports as a name resolves: containers before sidecars
// (init containers that keep running), and of several with one name and
// protocol the first.
func portsOf(spec corev1.PodSpec) []desired.PodPort {
	var ports []desired.PodPort
	seen := map[desired.PodPort]bool{}
	add := func(c corev1.Container) {
		for _, port := range c.Ports {
			if port.Name == "" || port.ContainerPort < 1 || port.ContainerPort > 65535 {
				continue
			}
			key := desired.PodPort{Name: port.Name, Protocol: policy.Protocol(port.Protocol)}
			if key.Protocol == "" {
				key.Protocol = policy.TCP
			}
			if seen[key] {
				continue
			}
			seen[key] = true
			key.Number = uint16(port.ContainerPort)
			ports = append(ports, key)
		}
	}
	for _, c := range spec.Containers {
		add(c)
	}
	for _, c := range spec.InitContainers {
		if sidecar(c) {
			add(c)
		}
	}
	return ports
}

// sidecar reports whether an init container keeps running beside the others.
func sidecar(c corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}
