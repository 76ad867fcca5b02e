package controllers

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

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

// clusterNode is what is kept of a node of the cluster: what a ClusterNetworkPolicy asks for, and
// what decides contested addresses.
type clusterNode struct {
	state.Node
	cidrs    []netip.Prefix
	notReady time.Time // when the node became not ready; zero if it is ready or has no such condition
}

// keptClusterNodes keeps of the nodes of the cluster what a heartbeat does not change.
func keptClusterNodes() kept[*clusterNode] {
	return kept[*clusterNode]{
		kind: KindClusterNode,
		of: func(obj any) (*clusterNode, bool) {
			switch o := obj.(type) {
			case *corev1.Node:
				return clusterNodeOf(o), true
			case *clusterNode:
				return o, true
			}
			return nil, false
		},
		nameOf: func(n *clusterNode) cache.ObjectName { return cache.ObjectName{Name: n.Name} },
		same: func(a, b *clusterNode) bool {
			return a.Same(&b.Node) && slices.Equal(a.cidrs, b.cidrs) && a.notReady.Equal(b.notReady)
		},
	}
}

func clusterNodeOf(o *corev1.Node) *clusterNode {
	n := &clusterNode{Node: ClusterNode(o)}
	for _, c := range o.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			n.notReady = c.LastTransitionTime.Time
		}
	}
	for _, text := range append([]string{o.Spec.PodCIDR}, o.Spec.PodCIDRs...) {
		if cidr, err := netip.ParsePrefix(text); err == nil && cidr.Addr().Is4() && !slices.Contains(n.cidrs, cidr) && len(n.cidrs) < maxNodeAddrs {
			n.cidrs = append(n.cidrs, cidr)
		}
	}
	return n
}

// ClusterNode returns what a ClusterNetworkPolicy asks of a Node. It keeps every entry of
// status.addresses that is an address. An oversized Node keeps its addresses, because Denies need them, and no labels.
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
