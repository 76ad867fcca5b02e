// Package cluster is the model of a cluster for the commands of kubectl npm. A World has the pods,
// namespaces, nodes, Services and policies that a cluster has, or would have after manifests were applied.
// It is read from manifests, a live cluster or a dump (read.go, dump.go), changed by objects (change.go), and
// programmed on a simulator of HNS (program.go). What controllers do is in workloads.go: which pods a workload
// has, and which labels it adds.
package cluster

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// World is the state of a cluster. Readers must not change it.
type World struct {
	// Node is the only node whose pods have endpoints and whose writes are planned; "" means all nodes.
	Node       string
	Pods       []Pod // sorted by namespace and name
	Namespaces []desired.Namespace
	Nodes      []Node
	Services   []*corev1.Service // of manifests only
	Policies   []*networkingv1.NetworkPolicy
	// ClusterPolicies are policies of every tier.
	ClusterPolicies []*v1alpha2.ClusterNetworkPolicy
	// Now is the time of this state, at which the simulated clock starts. Start times after it are
	// ignored, unless it is zero.
	Now time.Time
	// Warnings are about parts of the input that are ignored or changed.
	Warnings []state.Warning
	// Places is manifest.Objects.Places.
	Places map[string]string
	// Makers is manifest.Objects.Makers.
	Makers map[string]string
	// FromManifests reports that the world was made from manifests, so pods of workloads have made-up
	// names, and all nodes are known.
	FromManifests bool
	// NodesUnknown reports that Nodes may be incomplete, and OwnersUnknown that the workloads of pods are
	// unknown. Both are for dumps.
	NodesUnknown, OwnersUnknown bool
	// OthersLabels are, by namespace, the labels that the last kubectl apply did not set. Another apply
	// keeps them.
	OthersLabels map[string]map[string]string
}

// Pod is a pod and its node. Its field Local is not used.
type Pod struct {
	desired.Pod
	Node string // "" if it is not scheduled yet
	// Owners are the owners of the pod, as "Deployment namespace/name", from its controller outward.
	Owners []string
	// Endpoints are the pod's endpoints in HNS, with the rules of other programs. A pod without any gets
	// the endpoint that azure-cni would make. They get the address of the pod.
	Endpoints []hnssim.SimEndpoint
}

// PodOf returns the pod of an object. makers is manifest.Objects.Makers.
func PodOf(p *corev1.Pod, makers map[string]string) Pod {
	pod := Pod{Pod: controllers.PodFrom(p, p.Spec.NodeName), Node: p.Spec.NodeName, Owners: owners(p, makers)}
	pod.Fit()
	return pod
}

// Running reports whether the pod has an address and is not about to end.
func (p *Pod) Running() bool {
	return (p.Addr.IsValid() || p.HostNetwork) && !p.Finished && !p.Deleting
}

// Node is a node of the cluster.
type Node struct {
	// NodeDump has the labels and all addresses, which policies with nodes as peers use.
	state.NodeDump
	Internal []netip.Addr // its InternalIPs, from which it may reach its pods
	Linux    bool         // so it has no agent
	Unlisted bool         // it is known only as the node of a pod, so it is no peer of a policy
}

// nodeOf returns the node of an object.
func nodeOf(n *corev1.Node) Node {
	return Node{NodeDump: controllers.ClusterNode(n), Internal: controllers.NodeAddrs(n), Linux: n.Labels[corev1.LabelOSStable] == string(corev1.Linux)}
}

// Planned returns the nodes whose writes are planned.
func (w World) Planned() []Node {
	one := w.Node != "" || w.OwnersUnknown // a dump is of its own node
	return slices.DeleteFunc(slices.Clone(w.Nodes), func(n Node) bool { return n.Linux || one && n.Name != w.Node })
}

// listed returns the nodes that are not known as nodes of pods only.
func (w World) listed() []Node {
	return slices.DeleteFunc(slices.Clone(w.Nodes), func(n Node) bool { return n.Unlisted })
}

// AddNodes adds the nodes of pods that are not there, and sorts the nodes.
func (w *World) AddNodes() {
	known := map[string]bool{}
	for _, n := range w.Nodes {
		known[n.Name] = true
	}
	for i := range w.Pods {
		if name := w.Pods[i].Node; !known[name] {
			known[name] = true
			w.Nodes = append(w.Nodes, Node{NodeDump: state.NodeDump{Name: name}, Unlisted: true})
		}
	}
	slices.SortFunc(w.Nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
}

// ClusterPrefix precedes the name of a ClusterNetworkPolicy in lists of policies of all tiers. It cannot be
// a namespace.
const ClusterPrefix = "ClusterNetworkPolicy/"

// Specs returns the specs of the policies of all tiers. Its keys are namespace/name, and the name with
// ClusterPrefix.
func (w World) Specs() map[string]any {
	out := map[string]any{}
	for _, np := range w.Policies {
		out[nameOf(np)] = np.Spec
	}
	for _, cnp := range w.ClusterPolicies {
		out[nameOfCluster(cnp)] = cnp.Spec
	}
	return out
}

func nameOf(np *networkingv1.NetworkPolicy) string { return np.Namespace + "/" + np.Name }

func nameOfCluster(cnp *v1alpha2.ClusterNetworkPolicy) string { return ClusterPrefix + cnp.Name }

// SelectsNodes reports whether a policy has nodes as peers.
func SelectsNodes(cnp *v1alpha2.ClusterNetworkPolicy) bool {
	return slices.ContainsFunc(cnp.Spec.Egress, func(r v1alpha2.ClusterNetworkPolicyEgressRule) bool {
		return slices.ContainsFunc(r.To, func(p v1alpha2.ClusterNetworkPolicyEgressPeer) bool { return p.Nodes != nil })
	})
}
