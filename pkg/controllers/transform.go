package controllers

import (
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/winnpm/winnpm/pkg/dataplane"
)

// keptPods keeps of a pod what the dataplane wants to know. The dataplane has
// the same values, so a pod is in memory once. in is the caller's alone.
func keptPods(node string, in *interner) kept[*dataplane.Pod] {
	return kept[*dataplane.Pod]{
		kind: KindPod,
		of: func(obj any) (*dataplane.Pod, bool) {
			var p *corev1.Pod
			switch o := obj.(type) {
			case *lightPod:
				p = &o.Pod
			case *corev1.Pod:
				p = o
			case *dataplane.Pod:
				return o, true
			default:
				return nil, false
			}
			pod := PodFrom(p, node)
			in.pod(&pod)
			return &pod, true
		},
		nameOf: func(p *dataplane.Pod) cache.ObjectName { return cache.ObjectName{Namespace: p.Namespace, Name: p.Name} },
		same:   (*dataplane.Pod).Same,
	}
}

func keptNamespaces() kept[*dataplane.Namespace] {
	return kept[*dataplane.Namespace]{
		kind: KindNamespace,
		of: func(obj any) (*dataplane.Namespace, bool) {
			switch o := obj.(type) {
			case *corev1.Namespace:
				return &dataplane.Namespace{Name: o.Name, Labels: o.Labels}, true
			case *dataplane.Namespace:
				return o, true
			}
			return nil, false
		},
		nameOf: func(ns *dataplane.Namespace) cache.ObjectName { return cache.ObjectName{Name: ns.Name} },
		same:   func(a, b *dataplane.Namespace) bool { return maps.Equal(a.Labels, b.Labels) },
	}
}

// keptPolicies keeps the objects, for who explains them, without what nobody
// reads. The dataplane shares the Spec.
func keptPolicies() kept[*networkingv1.NetworkPolicy] {
	return kept[*networkingv1.NetworkPolicy]{
		kind: KindPolicy,
		of: func(obj any) (*networkingv1.NetworkPolicy, bool) {
			o, ok := obj.(*networkingv1.NetworkPolicy)
			if !ok {
				return nil, false
			}
			return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{
				Namespace: o.Namespace, Name: o.Name, UID: o.UID,
				ResourceVersion: o.ResourceVersion, Generation: o.Generation,
				CreationTimestamp: o.CreationTimestamp, DeletionTimestamp: o.DeletionTimestamp, Labels: o.Labels,
			}, Spec: o.Spec}, true
		},
		nameOf: func(np *networkingv1.NetworkPolicy) cache.ObjectName {
			return cache.ObjectName{Namespace: np.Namespace, Name: np.Name}
		},
		same: func(a, b *networkingv1.NetworkPolicy) bool {
			return a.ResourceVersion != "" && a.ResourceVersion == b.ResourceVersion && a.UID == b.UID
		},
	}
}

// node is what is kept of a Node.
type node struct {
	Name  string
	Addrs []netip.Addr
}

func keptNodes() kept[*node] {
	return kept[*node]{
		kind: KindNode,
		of: func(obj any) (*node, bool) {
			switch o := obj.(type) {
			case *corev1.Node:
				return &node{o.Name, NodeAddrs(o)}, true
			case *node:
				return o, true
			}
			return nil, false
		},
		nameOf: func(n *node) cache.ObjectName { return cache.ObjectName{Name: n.Name} },
		same:   func(a, b *node) bool { return slices.Equal(a.Addrs, b.Addrs) },
	}
}
