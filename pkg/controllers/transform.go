package controllers

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// keptPods keeps of a pod what the dataplane wants to know. The dataplane has
// the same values, so a pod is in memory once. What is over its budget is dropped
// before the next object comes. in is the caller's alone.
func keptPods(node string, in *interner) kept[*desired.Pod] {
	return kept[*desired.Pod]{
		kind: KindPod,
		of: func(obj any) (*desired.Pod, bool) {
			if is, ok := obj.(*desired.Pod); ok {
				return is, true
			}
			p, ok := obj.(*corev1.Pod)
			if !ok {
				return nil, false
			}
			pod := PodFrom(p, node)
			if !pod.Local && !pod.Addr.IsValid() {
				pod.Labels, pod.Ports = nil, nil // a pod without an address is in no set; the update that adds its address has the labels
			}
			pod.Fit()
			in.pod(&pod)
			return &pod, true
		},
		nameOf: func(p *desired.Pod) cache.ObjectName { return cache.ObjectName{Namespace: p.Namespace, Name: p.Name} },
		same:   func(a, b *desired.Pod) bool { return a.Size == b.Size && a.Same(b) },
	}
}

// podBudgetStore is the store of pods.
type podBudgetStore = budgetStore[desired.Pod]

func newPodStore(node string, b policy.Budgets, enqueue func(Key)) *podBudgetStore {
	excess := b.ExcessOfNamespacePods()
	return newBudgetStore(keptPods(node, newInterner()), sharing[desired.Pod]{
		limit: b.NamespaceBytes,
		size:  func(p *desired.Pod) int { return p.Size },
		shut:  func(p *desired.Pod) bool { return p.OverBudget == excess },
		shutting: func(p *desired.Pod) *desired.Pod {
			is := *p
			is.Labels, is.Ports, is.OverBudget = nil, nil, excess
			return &is
		},
	}, enqueue)
}

func keptNamespaces() kept[*desired.Namespace] {
	return kept[*desired.Namespace]{
		kind: KindNamespace,
		of: func(obj any) (*desired.Namespace, bool) {
			switch o := obj.(type) {
			case *corev1.Namespace:
				ns := &desired.Namespace{Name: o.Name, Labels: o.Labels}
				ns.Fit()
				return ns, true
			case *desired.Namespace:
				return o, true
			}
			return nil, false
		},
		nameOf: func(ns *desired.Namespace) cache.ObjectName { return cache.ObjectName{Name: ns.Name} },
		same:   (*desired.Namespace).Same,
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

// maxNodeAddrs bounds the addresses at which a Node is accepted. Nodes have two or three of
// them; a kubelet could report thousands, and claim those of others.
const maxNodeAddrs = 64

// keptClusterNodes keeps of the nodes of the cluster what a ClusterNetworkPolicy asks for.
// Of status.addresses those count that are addresses, of whatever type. A heartbeat
// changes nothing of that.
func keptClusterNodes() kept[*state.Node] {
	return kept[*state.Node]{
		kind: KindClusterNode,
		of: func(obj any) (*state.Node, bool) {
			switch o := obj.(type) {
			case *corev1.Node:
				n := ClusterNode(o)
				return &n, true
			case *state.Node:
				return o, true
			}
			return nil, false
		},
		nameOf: func(n *state.Node) cache.ObjectName { return cache.ObjectName{Name: n.Name} },
		same:   (*state.Node).Same,
	}
}

// ClusterNode returns what a ClusterNetworkPolicy asks of a Node. One that is over its
// budget has no labels, and all of its addresses, as a Deny has to have them.
func ClusterNode(o *corev1.Node) state.Node {
	n := state.Node{Name: o.Name, Labels: o.Labels, OverBudget: policy.ExcessOfLabels(policy.SizeOfPod(o.Labels))}
	seen := map[netip.Addr]bool{}
	for _, a := range o.Status.Addresses {
		if addr, ok := parseIPv4(a.Address); ok && !seen[addr] {
			seen[addr] = true
			n.Addrs = append(n.Addrs, addr)
		}
	}
	if len(n.Addrs) > maxNodeAddrs {
		n.OverBudget = fmt.Sprintf("more than %d addresses", maxNodeAddrs)
	}
	if n.OverBudget != "" {
		n.Labels = nil
	}
	return n
}
