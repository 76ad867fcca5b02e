// Package whatif says what a change of policies, of any tier, would change: which
// connections flip, and what would be written on which node. It runs the
// dataplane on the simulator, before the change and after it; nothing outside is
// touched.
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
	// ClusterPolicies are the tiers around Policies, and Peers all nodes of the cluster:
	// what these may have for a peer. PeersUnknown: nobody knows which there are.
	ClusterPolicies []*v1alpha2.ClusterNetworkPolicy
	Peers           []state.NodeDump
	PeersUnknown    bool
	// Nodes are those whose HNS is of interest.
	Nodes []Node
	// Now is the time of this state. Later start times are ignored; with the zero time,
	// none is.
	Now time.Time
	// Warnings are about what of the cluster counts otherwise than it looks.
	Warnings []state.Warning
	// OwnersUnknown: nobody knows which workloads the pods are of.
	OwnersUnknown bool
	// FromManifests: workloads have the pods that manifests make, on all nodes that there are.
	FromManifests bool
	// Makers are those of manifest.Objects.
	Makers map[string]string
	// OthersLabels are those of namespaces, by name, that others gave than whoever applied
	// the namespace last; to apply it again leaves them.
	OthersLabels map[string]map[string]string
}

// Pod is a pod and where it runs. Its field Local is not used.
type Pod struct {
	desired.Pod
	Node string
	// Owners are the workloads that it is of, as "Deployment namespace/name", the one that
	// made the other ones last.
	Owners []string
	// Endpoints are what it has in HNS, with what others put on them; none: it is given one, as
	// azure-cni makes it. They get the address of the pod.
	Endpoints []hnssim.NewEndpoint
}

// Node is one whose agent writes to HNS. Pods that are on no node yet are on the
// one without a name.
type Node struct {
	Name  string
	Addrs []netip.Addr
}

// AddNodes adds the nodes of interest that pods are on and that nobody has described.
func (w *World) AddNodes() {
	known := map[string]bool{}
	for _, n := range w.Nodes {
		known[n.Name] = true
	}
	for _, n := range w.Peers { // of interest, or not
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

// elsewhere is the node of the pods whose node a dump does not tell.
const elsewhere = "(another node)"

// ErrNoSpec says that a dump does not have the specs of policies.
var ErrNoSpec = errors.New("the dump does not have it: ask a newer agent")

// FromDump returns the world that one node's agent knows, as it should be: of
// other nodes it knows pods alone, and as peers only when one of its policies asks
// for them. It fails with ErrNoSpec when the dump has only the names of policies.
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
			continue // an agent that starts with these objects has no lost pods
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

// tiersOf takes the ClusterNetworkPolicies of a dump, and the nodes if it has them.
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

// podOf returns a pod of a dump, with the address that it owns or may own: the endpoint of an address in
// doubt has the rules of every pod that claims it. Policies may select a pod without an address, too.
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

// transaction tells a node what becomes of the world; local says which pods run there.
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

// knownNodes returns the nodes that an agent knows: all, if a policy has nodes as peers, else none.
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

// of is the pod for the agent of a node; local says which pods run there.
func (p Pod) of(local func(Pod) bool) desired.Pod {
	pod := p.Pod
	pod.Local = local(p)
	pod.UID = cmp.Or(pod.UID, types.UID(pod.Key().String())) // what tells pods apart
	return pod
}

// SetEndpoints creates the endpoints of the pods of a node, and deletes those of other pods. Of pods that
// share an address, only the first one has an endpoint, unless all have one.
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

// endpointID makes a GUID that is the same in every run.
func endpointID(pod desired.Pod) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %s", pod.Key(), pod.UID, pod.Addr))
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}
