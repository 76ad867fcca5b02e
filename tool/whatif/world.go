// Package whatif plans a change of policies and other objects: which connections would flip, and what each
// node's agent would write. It runs the dataplane on a simulator of HNS, before and after the change.
package whatif

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/explain"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// World is the state of a cluster. Readers must not change it.
type World struct {
	Pods       []Pod
	Namespaces []desired.Namespace
	Policies   []*networkingv1.NetworkPolicy
	// ClusterPolicies are the ClusterNetworkPolicies. Peers are all nodes of the cluster, which these may
	// have as peers. PeersUnknown reports that Peers may be incomplete.
	ClusterPolicies []*v1alpha2.ClusterNetworkPolicy
	Peers           []state.NodeDump
	PeersUnknown    bool
	// Nodes are the nodes whose writes are planned.
	Nodes []Node
	// Now is the time of this state, at which the simulated clock starts. Start times after it are
	// ignored, unless it is zero.
	Now time.Time
	// Warnings are about objects that the plan treats otherwise than a user would expect.
	Warnings []state.Warning
	// OwnersUnknown reports that the workloads of pods are unknown.
	OwnersUnknown bool
	// FromManifests reports that the world was made from manifests, so pods of workloads have made-up
	// names, and all nodes are known.
	FromManifests bool
	// Makers is manifest.Objects.Makers.
	Makers map[string]string
	// OthersLabels are, by namespace, the labels that the last kubectl apply did not set. Another apply
	// keeps them.
	OthersLabels map[string]map[string]string
}

// Pod is a pod and its node. Its field Local is not used.
type Pod struct {
	desired.Pod
	Node string
	// Owners are the owners of the pod, as "Deployment namespace/name", from its controller outward.
	Owners []string
	// Endpoints are the pod's endpoints in HNS, with the rules of other programs. A pod without any gets
	// the endpoint that azure-cni would make. They get the address of the pod.
	Endpoints []hnssim.NewEndpoint
}

// Node is a node whose writes are planned. Pods that are not scheduled yet are on the node without a name.
type Node struct {
	Name  string
	Addrs []netip.Addr
}

// AddNodes adds the nodes of pods to Nodes, if they are neither there nor in Peers.
func (w *World) AddNodes() {
	known := map[string]bool{}
	for _, n := range w.Nodes {
		known[n.Name] = true
	}
	for _, n := range w.Peers { // includes nodes that are not planned
		known[n.Name] = true
	}
	for i := range w.Pods {
		if name := w.Pods[i].Node; !known[name] {
			known[name] = true
			w.Nodes = append(w.Nodes, Node{Name: name})
		}
	}
	slices.SortFunc(w.Nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
}

// elsewhere is the node of pods whose node the dump does not name.
const elsewhere = "(another node)"

// ErrNoSpec means that a dump lacks the spec of a policy.
var ErrNoSpec = errors.New("the dump does not have it: ask a newer agent")

// FromDump returns the world of a dump, in the desired state. The dump of an agent has only the pods of
// other nodes, and describes nodes only if a policy has nodes as peers. FromDump fails with ErrNoSpec if
// the dump lacks a policy's spec.
func FromDump(d state.Dump) (World, error) {
	w := World{Now: d.Time, OwnersUnknown: true, Nodes: []Node{{Name: d.Node, Addrs: addrs(d.NodeAddrs)}}}
	for _, ns := range d.Namespaces {
		w.Namespaces = append(w.Namespaces, desired.Namespace(ns))
	}
	for _, p := range d.Policies {
		if p.Spec == nil {
			return World{}, fmt.Errorf("what NetworkPolicy %s says: %w", p.Policy, ErrNoSpec)
		}
		np := &networkingv1.NetworkPolicy{Spec: *p.Spec}
		np.Namespace, np.Name, _ = strings.Cut(p.Policy, "/")
		w.Policies = append(w.Policies, np)
	}
	if err := w.tiersOf(d); err != nil {
		return World{}, err
	}
	endpoints := map[string]*state.EndpointDump{}
	for i := range d.Endpoints {
		endpoints[d.Endpoints[i].ID] = &d.Endpoints[i]
	}
	for i := range d.Pods {
		p := &d.Pods[i]
		if !p.LostUntil.IsZero() {
			continue // only an agent that saw the pod before knows lost pods
		}
		pod := Pod{Pod: podOf(p), Node: elsewhere}
		if p.Local {
			pod.Node = d.Node
		}
		for _, id := range p.Endpoints {
			if ep := endpoints[id]; ep != nil && p.Local {
				pod.Endpoints = append(pod.Endpoints, endpointOf(ep))
				delete(endpoints, id) // it has one owner
			}
		}
		w.Pods = append(w.Pods, pod)
	}
	return w, nil
}

// tiersOf sets ClusterPolicies, Peers and PeersUnknown from a dump.
func (w *World) tiersOf(d state.Dump) error {
	w.Peers, w.PeersUnknown = d.Nodes, true
	for _, p := range d.ClusterPolicies {
		if p.Spec == nil {
			return fmt.Errorf("what ClusterNetworkPolicy %s says: %w", p.Name, ErrNoSpec)
		}
		cnp := &v1alpha2.ClusterNetworkPolicy{Spec: *p.Spec}
		cnp.Name = p.Name
		w.ClusterPolicies = append(w.ClusterPolicies, cnp)
		w.PeersUnknown = w.PeersUnknown && !namesNodes(cnp)
	}
	return nil
}

// podOf converts a pod of a dump. It keeps the address of a pod that owns it or may own it, because the
// endpoint of an address in doubt has the rules of every pod that claims it.
func podOf(p *state.PodDump) desired.Pod {
	out := desired.Pod{UID: types.UID(p.UID), Labels: p.Labels, OverBudget: p.OverBudget, HostNetwork: p.HostNetwork, Finished: p.Finished}
	if addr, err := netip.ParseAddr(p.Addr); err == nil && addr.Is4() && (p.Owner || p.InDoubt) && !p.HostNetwork && !p.Finished {
		out.Addr = addr
	}
	out.Namespace, out.Name, _ = strings.Cut(p.Pod, "/")
	for _, text := range p.Ports {
		name, rest, _ := strings.Cut(text, ":")
		if number, protocol, err := explain.ParsePort(rest); err == nil {
			out.Ports = append(out.Ports, desired.PodPort{Name: name, Protocol: protocol, Number: number})
		}
	}
	return out
}

func endpointOf(ep *state.EndpointDump) hnssim.NewEndpoint {
	out := hnssim.NewEndpoint{ID: ep.ID, Policies: []hns.EndpointPolicy{}}
	for _, a := range ep.ForeignRules {
		out.Policies = append(out.Policies, hns.NewACLPolicy(a))
	}
	if ep.Tiered {
		out.Policies = append(out.Policies, hns.EndpointPolicy{Type: hns.PolicyTypeTierACL, Settings: []byte("{}")})
	}
	return out
}

func addrs(texts []string) []netip.Addr {
	var out []netip.Addr
	for _, text := range texts {
		if addr, err := netip.ParseAddr(text); err == nil {
			out = append(out, addr)
		}
	}
	return out
}

// transaction returns the transaction from this world to another one; local reports whether a pod runs on
// the node.
func (w World) transaction(after World, local func(Pod) bool) *dataplane.Transaction {
	tx := dataplane.NewTransaction()
	addDifference(w.Pods, after.Pods, Pod.Key, func(a, b Pod) bool {
		was, is := a.of(local), b.of(local)
		return was.Same(&is)
	}, func(p Pod) { tx.SetPod(p.of(local)) }, tx.DeleteFinishedPod)
	addDifference(w.Namespaces, after.Namespaces, func(ns desired.Namespace) string { return ns.Name },
		func(a, b desired.Namespace) bool { return a.Same(&b) }, tx.SetNamespace, tx.DeleteNamespace)
	addDifference(w.knownNodes(), after.knownNodes(), func(n state.NodeDump) string { return n.Name },
		func(a, b state.NodeDump) bool { return a.Same(&b) }, tx.SetNode, tx.DeleteNode)
	addDifference(w.Policies, after.Policies, keyOf, func(a, b *networkingv1.NetworkPolicy) bool {
		return a == b || equality.Semantic.DeepEqual(a.Spec, b.Spec)
	}, tx.SetPolicy, tx.DeletePolicy)
	addDifference(w.ClusterPolicies, after.ClusterPolicies, func(p *v1alpha2.ClusterNetworkPolicy) string { return p.Name },
		func(a, b *v1alpha2.ClusterNetworkPolicy) bool {
			return a == b || equality.Semantic.DeepEqual(a.Spec, b.Spec)
		},
		tx.SetClusterPolicy, tx.DeleteClusterPolicy)
	return tx
}

// knownNodes returns the nodes that an agent watches: all if a policy has nodes as peers, else none.
func (w World) knownNodes() []state.NodeDump {
	if slices.ContainsFunc(w.ClusterPolicies, namesNodes) {
		return w.Peers
	}
	return nil
}

// addDifference calls set for the new and changed objects of a list, and remove for the others.
func addDifference[T any, K comparable](before, after []T, key func(T) K, same func(a, b T) bool, set func(T), remove func(K)) {
	old, now := map[K]T{}, map[K]bool{}
	for _, o := range before {
		old[key(o)] = o
	}
	for _, o := range after {
		now[key(o)] = true
		if was, ok := old[key(o)]; !ok || !same(was, o) {
			set(o)
		}
	}
	for k := range old {
		if !now[k] {
			remove(k)
		}
	}
}

// of returns the pod for the agent of a node; local reports whether a pod runs on the node.
func (p Pod) of(local func(Pod) bool) desired.Pod {
	pod := p.Pod
	pod.Local = local(p)
	pod.UID = cmp.Or(pod.UID, types.UID(pod.Key().String())) // the dataplane distinguishes pods by UID
	return pod
}

// SetEndpoints creates the endpoints of the node's pods, and deletes all others. If pods share an address,
// only the first gets an endpoint, unless all is set.
func (w World) SetEndpoints(sim *hnssim.Sim, local func(Pod) bool, all bool) error {
	old, taken := map[string]bool{}, map[netip.Addr]bool{}
	for _, id := range sim.AllEndpointIDs() {
		old[id] = true
	}
	for i := range w.Pods {
		p := &w.Pods[i]
		if !local(*p) || p.HostNetwork || p.Finished || !p.Addr.IsValid() || !all && taken[p.Addr] && len(p.Endpoints) == 0 {
			continue
		}
		taken[p.Addr] = true
		eps := p.Endpoints
		if len(eps) == 0 {
			eps = []hnssim.NewEndpoint{{ID: endpointID(p.Pod), Policies: hnssim.DefaultForeign()}}
		}
		for _, ep := range eps {
			if old[ep.ID] {
				delete(old, ep.ID)
				continue
			}
			ep.Addrs = []netip.Addr{p.Addr}
			if err := sim.CreateEndpoint(ep); err != nil {
				return fmt.Errorf("endpoint %s of pod %s: %w", ep.ID, p.Key(), err)
			}
		}
	}
	for id := range old {
		if err := sim.DeleteEndpoint(id); err != nil {
			return fmt.Errorf("endpoint %s: %w", id, err)
		}
	}
	return nil
}

// endpointID returns a GUID that is the same in every run.
func endpointID(pod desired.Pod) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %s", pod.Key(), pod.UID, pod.Addr))
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}
