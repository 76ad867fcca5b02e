package oracle

import (
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// address returns the IPv4 address of an end, the zero Addr if it has none.
func address(c Cluster, e Endpoint) netip.Addr {
	if e.IP.IsValid() {
		return e.IP
	}
	for i := range c.Pods {
		pod := &c.Pods[i]
		if pod.Namespace == e.Pod.Namespace && pod.Name == e.Pod.Name {
			return Address(pod)
		}
	}
	return netip.Addr{}
}

// Address returns the pod's IPv4 address, the zero Addr if it has none.
func Address(pod *corev1.Pod) netip.Addr {
	for _, ip := range pod.Status.PodIPs {
		if addr, err := netip.ParseAddr(ip.IP); err == nil && addr.Is4() {
			return addr
		}
	}
	if addr, err := netip.ParseAddr(pod.Status.PodIP); err == nil && addr.Is4() {
		return addr
	}
	return netip.Addr{}
}

// Member reports whether selectors can mean the pod at all: it runs, or will,
// and has an address of its own.
func Member(pod *corev1.Pod) bool {
	finished := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	return !finished && !pod.Spec.HostNetwork && Address(pod).IsValid()
}

// Owner returns the pod that the address means now, nil if it means none. It
// is of interest while an address passes from one pod to the next.
func Owner(c Cluster, addr netip.Addr) *corev1.Pod {
	var best *corev1.Pod
	for i := range c.Pods {
		pod := &c.Pods[i]
		if Member(pod) && Address(pod) == addr && (best == nil || succeeds(pod, best)) {
			best = pod
		}
	}
	return best
}

// succeeds reports whether pod a, not b, has the address that both claim: the
// one that is not being deleted, else the one that started later, else the one
// that was created later, else the one with the greater UID.
func succeeds(a, b *corev1.Pod) bool {
	if stays := a.DeletionTimestamp == nil; stays != (b.DeletionTimestamp == nil) {
		return stays
	}
	if order := started(a).Compare(started(b)); order != 0 {
		return order > 0
	}
	if order := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); order != 0 {
		return order > 0
	}
	return strings.Compare(string(a.UID), string(b.UID)) > 0
}

// started returns when the pod started, the zero time if it is not said.
func started(pod *corev1.Pod) time.Time {
	if pod.Status.StartTime == nil {
		return time.Time{}
	}
	return pod.Status.StartTime.Time
}
