package controllers

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// as returns a function that returns nil for an object of another type.
func as[O, T any](of func(*O) *T) func(runtime.Object) *T {
	return func(object runtime.Object) *T {
		if o, ok := object.(any).(*O); ok {
			return of(o)
		}
		return nil
	}
}

// keptPods keeps of a pod what the dataplane needs. The dataplane shares the values, so a pod is in
// memory once.
func keptPods(node string, b policy.Budgets) kept[desired.Pod] {
	in, excess := newInterner(), b.ExcessOfNamespacePods()
	return kept[desired.Pod]{
		kind: KindPod,
		of: as(func(p *corev1.Pod) *desired.Pod {
			pod := PodFrom(p, node)
			if !pod.Local && !pod.Addr.IsValid() {
				pod.Labels, pod.Ports = nil, nil // a pod without an address is in no set; the update that adds its address has the labels
			}
			pod.Fit()
			in.pod(&pod)
			return &pod
		}),
		same:  func(a, b *desired.Pod) bool { return a.Size == b.Size && a.Same(b) },
		limit: b.NamespaceBytes,
		size:  func(p *desired.Pod) int { return p.Size },
		shut: func(p *desired.Pod) *desired.Pod {
			is := *p
			is.Labels, is.Ports, is.OverBudget = nil, nil, excess
			return &is
		},
	}
}

func keptNamespaces() kept[desired.Namespace] {
	return kept[desired.Namespace]{
		kind: KindNamespace,
		of: as(func(o *corev1.Namespace) *desired.Namespace {
			ns := &desired.Namespace{Name: o.Name, Labels: o.Labels}
			ns.Fit()
			return ns
		}),
		same: (*desired.Namespace).Same,
	}
}

// keptNodes keeps the addresses of this node.
func keptNodes() kept[[]netip.Addr] {
	return kept[[]netip.Addr]{
		kind: KindNode,
		of: as(func(o *corev1.Node) *[]netip.Addr {
			addrs := NodeAddrs(o)
			return &addrs
		}),
		same: func(a, b *[]netip.Addr) bool { return slices.Equal(*a, *b) },
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
func keptClusterNodes() kept[clusterNode] {
	return kept[clusterNode]{
		kind: KindClusterNode,
		of:   as(clusterNodeOf),
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
	for _, addr := range nodeAddrs(o, "") {
		if !seen[addr] {
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

// NodeAddrs returns the IPv4 InternalIPs of a node.
func NodeAddrs(o *corev1.Node) []netip.Addr { return nodeAddrs(o, corev1.NodeInternalIP) }

// nodeAddrs returns the IPv4 addresses of a node that are of a type, of any type for "".
func nodeAddrs(o *corev1.Node, only corev1.NodeAddressType) []netip.Addr {
	var addrs []netip.Addr
	for _, a := range o.Status.Addresses {
		if addr, err := netip.ParseAddr(a.Address); err == nil && addr.Is4() && (only == "" || a.Type == only) {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}
