package controllers

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// keptNodes returns how the store keeps this node's Node object: its addresses.
func keptNodes() kept[*corev1.Node, []netip.Addr] {
	return kept[*corev1.Node, []netip.Addr]{
		kind: KindNode,
		of: func(o *corev1.Node) *[]netip.Addr {
			addrs := NodeAddrs(o)
			return &addrs
		},
		same: func(a, b *[]netip.Addr) bool { return slices.Equal(*a, *b) },
	}
}

// maxNodeAddrs limits the addresses of a Node. Nodes have two or three of them; a kubelet could
// report thousands, and claim addresses of other nodes.
const maxNodeAddrs = 64

// clusterNode holds the fields of a node of the cluster that ClusterNetworkPolicies and the
// decision about contested addresses need.
type clusterNode struct {
	state.NodeDump
	cidrs    []netip.Prefix
	notReady time.Time // when the node became not ready; zero if it is ready or has no such condition
}

// keptClusterNodes returns how the store keeps the nodes of the cluster: without the fields that
// change with each heartbeat.
func keptClusterNodes() kept[*corev1.Node, clusterNode] {
	return kept[*corev1.Node, clusterNode]{
		kind: KindClusterNode,
		of:   clusterNodeOf,
		same: func(a, b *clusterNode) bool {
			return a.Same(&b.NodeDump) && slices.Equal(a.cidrs, b.cidrs) && a.notReady.Equal(b.notReady)
		},
	}
}

func clusterNodeOf(o *corev1.Node) *clusterNode {
	n := &clusterNode{NodeDump: ClusterNode(o)}
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

// ClusterNode returns the fields of a Node that ClusterNetworkPolicies select by. It keeps every
// IPv4 address in status.addresses. An oversized Node keeps its addresses, because rules that deny
// need them, and has no labels.
func ClusterNode(o *corev1.Node) state.NodeDump {
	n := state.NodeDump{Name: o.Name, Labels: o.Labels, OverBudget: policy.ExcessOfLabels(policy.SizeOfPod(o.Labels))}
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

// nodeAddrs returns the IPv4 addresses of a node that have a type, or all of them for "".
func nodeAddrs(o *corev1.Node, only corev1.NodeAddressType) []netip.Addr {
	var addrs []netip.Addr
	for _, a := range o.Status.Addresses {
		if addr, err := netip.ParseAddr(a.Address); err == nil && addr.Is4() && (only == "" || a.Type == only) {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

// nodesPatience is how long the previous version of a ClusterNetworkPolicy that names nodes stays
// in force while the agent waits for the first list of nodes. A list takes less than a second.
const nodesPatience = 10 * time.Second

// nodeWatch watches the nodes of the cluster once something needs them: a ClusterNetworkPolicy that
// has nodes as peers, or a contested address. Until then there is no watch: every node has an
// agent, and each agent would read every node.
type nodeWatch struct {
	*store[*corev1.Node, clusterNode]
	informer *informer
	decided  func()        // called when the nodes become known, and when they are late
	need     func()        // starts the watch, unless it has started
	needed   chan struct{} // closed by need
	late     chan struct{} // closed nodesPatience after needed
}

func newNodeWatch(source cache.ListerWatcher, logger klog.Logger, changed func(key ObjectKey, was, is *clusterNode), decided func()) *nodeWatch {
	s := newStore(keptClusterNodes(), changed)
	i := newInformer(KindClusterNode, s, source, logger)
	i.first = decided
	needed := make(chan struct{})
	need := sync.OnceFunc(func() { close(needed) })
	return &nodeWatch{store: s, informer: i, decided: decided, need: need, needed: needed, late: make(chan struct{})}
}

// run watches the nodes until ctx is done.
func (w *nodeWatch) run(ctx context.Context) {
	select {
	case <-w.needed:
	case <-ctx.Done():
		return
	}
	timer := time.AfterFunc(nodesPatience, func() {
		if close(w.late); !w.known() {
			w.decided()
		}
	})
	defer timer.Stop()
	w.informer.run(ctx)
}

// await waits until the nodes are known or late, if they are needed.
func (w *nodeWatch) await(ctx context.Context) {
	if !isClosed(w.needed) {
		return
	}
	select {
	case <-w.informer.synced:
	case <-w.late:
	case <-ctx.Done():
	}
}

// known reports whether all nodes are in the store.
func (w *nodeWatch) known() bool { return isClosed(w.informer.synced) }

// nodesDecided enqueues each policy that names nodes, so that the worker reads it again.
func (c *Controller) nodesDecided() {
	names := c.namingNodes()
	if len(names) > 0 && !c.allNodes.known() {
		c.cfg.Logger.Info("the nodes of the cluster are not known yet, policies that name nodes are closed", "waited", nodesPatience, "policies", len(names))
	}
	for _, name := range names {
		c.queue.Add(ObjectKey{KindClusterPolicy, cache.ObjectName{Name: name}}, prompt, time.Time{})
	}
}

// namingNodes returns the names of the policies that have nodes as peers.
func (c *Controller) namingNodes() (names []string) {
	for _, p := range c.clusters.all() {
		if p.nodes {
			names = append(names, p.object.Name)
		}
	}
	return names
}

const (
	// lostAfter is how long a node must be not ready before its pods lose contested addresses.
	lostAfter = time.Minute
	// judgeEvery is the interval at which all rivals are judged again without an event.
	judgeEvery = 30 * time.Second
)

// contests decides which of several pods of other nodes has a contested address, by the state of
// their Node objects. It judges only pods that have a rival, and starts the watch of the nodes at
// the first such pod.
type contests struct {
	nodes  *nodeWatch // nil if there is no source of them: no pod is judged
	queue  *queue
	rivals map[desired.PodKey]bool
	judged time.Time // when all rivals were last enqueued; zero after a node changed
}

// setRivals replaces the pods that contest an address, as state.Report lists them after a
// transaction. If they changed it enqueues the old and the new ones, so that they are judged again.
func (c *contests) setRivals(rivals [][2]string) {
	is := map[desired.PodKey]bool{}
	for _, r := range rivals {
		is[desired.PodKey{Namespace: r[0], Name: r[1]}] = true
	}
	if maps.Equal(is, c.rivals) {
		return
	}
	c.enqueueAll()
	c.rivals = is
	c.enqueueAll()
	if len(is) > 0 {
		c.nodes.need()
	}
}

// enqueueAll enqueues all rivals, so that they are judged again.
func (c *contests) enqueueAll() {
	c.judged = time.Now()
	for key := range c.rivals {
		c.queue.Add(keyOfPod(key), prompt, time.Time{})
	}
}

// judge returns a copy of a rival of another node with Trust set. While the nodes are unknown or cannot be read, it
// returns the pod itself, so no claim gives way.
func (c *contests) judge(p *desired.Pod) *desired.Pod {
	if p.Node == "" || !c.nodes.known() || c.nodes.informer.problem() != nil {
		return p
	}
	is := *p
	is.Trust = desired.Lost
	if n := c.nodes.get(cache.ObjectName{Name: p.Node}); n != nil {
		is.Trust = n.trust(p.Addr, time.Now())
	}
	return &is
}

// trust returns how the node affects the claim of one of its pods to an address: desired.Inside,
// desired.Outside, desired.Lost or 0.
func (n *clusterNode) trust(addr netip.Addr, now time.Time) int8 {
	switch {
	case !n.notReady.IsZero() && now.Sub(n.notReady) >= lostAfter:
		return desired.Lost
	case len(n.cidrs) == 0:
		return 0
	case slices.ContainsFunc(n.cidrs, func(c netip.Prefix) bool { return c.Contains(addr) }):
		return desired.Inside
	}
	return desired.Outside
}
