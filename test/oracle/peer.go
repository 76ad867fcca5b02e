package oracle

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// fromAny reports whether one of the peers of a rule matches the end. A rule without peers matches every
// end.
func (p packet) fromAny(peers []networkingv1.NetworkPolicyPeer, namespace string, e end) bool {
	if len(peers) == 0 {
		return true
	}
	return slices.ContainsFunc(peers, func(peer networkingv1.NetworkPolicyPeer) bool {
		if peer.IPBlock != nil {
			return peer.PodSelector == nil && peer.NamespaceSelector == nil && inBlock(*peer.IPBlock, e.addr)
		}
		return e.pod != nil && p.selects(peer, namespace, e.pod)
	})
}

// selects reports whether a peer of a policy in the namespace selects the pod. If it has two selectors,
// both must match. A peer without selectors is malformed.
func (p packet) selects(peer networkingv1.NetworkPolicyPeer, namespace string, pod *corev1.Pod) bool {
	switch {
	case peer.PodSelector == nil && peer.NamespaceSelector == nil:
		return false
	case peer.NamespaceSelector == nil:
		return pod.Namespace == namespace && matches(peer.PodSelector, pod.Labels)
	case peer.PodSelector == nil:
		return p.namespaceMatches(peer.NamespaceSelector, pod.Namespace)
	default:
		return p.namespaceMatches(peer.NamespaceSelector, pod.Namespace) && matches(peer.PodSelector, pod.Labels)
	}
}

// namespaceMatches reports whether the selector matches a namespace. No selector matches a namespace
// without an object, as its labels are unknown.
func (p packet) namespaceMatches(selector *metav1.LabelSelector, name string) bool {
	return slices.ContainsFunc(p.Namespaces, func(ns corev1.Namespace) bool {
		return ns.Name == name && matches(selector, ns.Labels)
	})
}

func matches(selector *metav1.LabelSelector, set map[string]string) bool {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && parsed.Matches(labels.Set(set))
}

// inBlock reports whether the block, but none of its exceptions, contains the address. A malformed block
// contains nothing.
func inBlock(block networkingv1.IPBlock, addr netip.Addr) bool {
	cidr, err := netip.ParsePrefix(block.CIDR)
	if err != nil || !cidr.Addr().Is4() {
		return false
	}
	cidr = cidr.Masked()
	excepted := false
	for _, text := range block.Except {
		except, err := netip.ParsePrefix(text)
		if err != nil || !except.Addr().Is4() {
			return false
		}
		if inside := except.Bits() >= cidr.Bits() && cidr.Contains(except.Addr()); !inside {
			return false
		}
		excepted = excepted || except.Masked().Contains(addr)
	}
	return cidr.Contains(addr) && !excepted
}
