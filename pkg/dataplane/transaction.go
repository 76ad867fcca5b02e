package dataplane

import (
	"iter"
	"maps"
	"net/netip"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// Pod is the whole state of a pod, as far as the dataplane wants to know it.
// The dataplane never changes what it was given.
type Pod struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	UID       types.UID         `json:"uid"`
	Labels    map[string]string `json:"labels,omitempty"`
	Addr      netip.Addr        `json:"address,omitzero"` // IPv4; the zero Addr when the pod has none
	Ports     []PodPort         `json:"ports,omitempty"`  // named ports; of one name and protocol only the first that resolves

	Local       bool      `json:"local,omitempty"` // scheduled to this node
	HostNetwork bool      `json:"hostNetwork,omitempty"`
	Finished    bool      `json:"finished,omitempty"` // Succeeded or Failed
	Deleting    bool      `json:"deleting,omitempty"` // has a deletionTimestamp
	Started     time.Time `json:"started,omitzero"`
	Created     time.Time `json:"created,omitzero"`

	Sandbox state.Sandbox `json:"sandbox,omitzero"`

	// OverBudget says in what the object is over its budget. Such a pod has neither
	// labels nor ports here, is in no set, and is closed in both directions.
	OverBudget string `json:"overBudget,omitempty"`
}

// Key returns the pod's name within the cluster.
func (p Pod) Key() PodKey { return PodKey{p.Namespace, p.Name} }

// Same reports whether two states of a pod of one name mean the same to the
// dataplane.
func (p *Pod) Same(o *Pod) bool {
	return p.UID == o.UID && p.Addr == o.Addr && p.Local == o.Local && p.HostNetwork == o.HostNetwork &&
		p.Finished == o.Finished && p.Deleting == o.Deleting &&
		p.Started.Equal(o.Started) && p.Created.Equal(o.Created) && p.Sandbox.Same(o.Sandbox) && p.OverBudget == o.OverBudget &&
		maps.Equal(p.Labels, o.Labels) && slices.Equal(p.Ports, o.Ports)
}

// PodPort is a named container port.
type PodPort struct {
	Name     string          `json:"name"`
	Protocol policy.Protocol `json:"protocol"`
	Number   uint16          `json:"number"`
}

// PodKey names a pod; over time several pods (UIDs) may bear one name.
type PodKey struct {
	Namespace string
	Name      string
}

// String returns namespace/name.
func (k PodKey) String() string { return k.Namespace + "/" + k.Name }

// Namespace is the whole state of a Namespace object.
type Namespace struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
	// OverBudget says in what the object is over its budget. Such a namespace has no
	// labels here and is in no set of a namespaceSelector.
	OverBudget string `json:"overBudget,omitempty"`
}

// Same reports whether two states of a namespace of one name mean the same.
func (ns *Namespace) Same(o *Namespace) bool {
	return ns.OverBudget == o.OverBudget && maps.Equal(ns.Labels, o.Labels)
}

// Transaction collects the state of objects that changed. It holds whole
// states: of several calls for one object the last one counts. It is built by
// one goroutine and not used any more once it was applied.
type Transaction struct {
	pods       map[PodKey]*Pod // nil: deleted
	namespaces map[string]*Namespace
	policies   map[policy.Key]*networkingv1.NetworkPolicy
	clusters   map[string]*v1alpha2.ClusterNetworkPolicy
	nodes      map[string]*state.Node // of the cluster
	nodeAddrs  *[]netip.Addr          // of this node
	observed   *Observation
	yield      func(turns int) bool
}

// NewTransaction returns an empty transaction. Applying an empty one retries
// what is due.
func NewTransaction() *Transaction {
	return &Transaction{
		pods:       map[PodKey]*Pod{},
		namespaces: map[string]*Namespace{},
		policies:   map[policy.Key]*networkingv1.NetworkPolicy{},
	}
}

// SetPod says how a pod is now. It takes a copy.
func (tx *Transaction) SetPod(p Pod) {
	p.Labels, p.Ports = maps.Clone(p.Labels), slices.Clone(p.Ports)
	tx.SharePod(&p)
}

// SharePod is SetPod without the copy: nobody may change the pod, its labels or
// its ports any more. Pods may share labels and ports.
func (tx *Transaction) SharePod(p *Pod) { tx.pods[p.Key()] = p }

// DeletePod says that a pod is no more.
func (tx *Transaction) DeletePod(key PodKey) { tx.pods[key] = nil }

// SetNamespace says how a namespace is now.
func (tx *Transaction) SetNamespace(ns Namespace) { tx.namespaces[ns.Name] = &ns }

// DeleteNamespace says that a Namespace object is no more.
func (tx *Transaction) DeleteNamespace(name string) { tx.namespaces[name] = nil }

// SetPolicy says how a policy is now. The object is not changed.
func (tx *Transaction) SetPolicy(np *networkingv1.NetworkPolicy) {
	tx.policies[policy.Key{Namespace: np.Namespace, Name: np.Name}] = np
}

// DeletePolicy says that a policy is no more.
func (tx *Transaction) DeletePolicy(key policy.Key) { tx.policies[key] = nil }

// SetClusterPolicy says how a ClusterNetworkPolicy is now. The object is not changed.
func (tx *Transaction) SetClusterPolicy(cnp *v1alpha2.ClusterNetworkPolicy) {
	put(&tx.clusters, cnp.Name, cnp)
}

// DeleteClusterPolicy says that a ClusterNetworkPolicy is no more.
func (tx *Transaction) DeleteClusterPolicy(name string) { put(&tx.clusters, name, nil) }

// SetNode says how a node of the cluster is now.
func (tx *Transaction) SetNode(n state.Node) { put(&tx.nodes, n.Name, &n) }

// DeleteNode says that a node is no more.
func (tx *Transaction) DeleteNode(name string) { put(&tx.nodes, name, nil) }

// put makes a map with its first object: few transactions have any of these kinds.
func put[T any](m *map[string]*T, name string, object *T) {
	if *m == nil {
		*m = map[string]*T{}
	}
	(*m)[name] = object
}

// SetNodeAddrs says which addresses the node has (all InternalIPs; those that
// are not IPv4 are left out). Traffic from them reaches every isolated pod, for
// the kubelet's probes.
func (tx *Transaction) SetNodeAddrs(addrs []netip.Addr) {
	sorted := slices.Compact(slices.SortedFunc(slices.Values(ipv4(addrs)), netip.Addr.Compare))
	tx.nodeAddrs = &sorted
}

// SetObservation hands over what the reconciler read from HNS.
func (tx *Transaction) SetObservation(obs *Observation) { tx.observed = obs }

// SetYield says when the next transaction is due. It is asked after each endpoint
// that is read or updated on its own, with how many these are so far, as long as
// others wait; once it says yes they are left to the next transaction, but for one
// update, as every transaction gets on. nil means never.
func (tx *Transaction) SetYield(due func(turns int) bool) { tx.yield = due }

// turn answers a request with Turns.
func (tx *Transaction) turn(req Request) Result { return Result{Yield: tx.yield(req.Turns)} }

// Pods returns the pods of the transaction; a nil Pod was deleted.
func (tx *Transaction) Pods() iter.Seq2[PodKey, *Pod] { return maps.All(tx.pods) }

// Namespaces returns the namespaces of the transaction; a nil one was deleted.
func (tx *Transaction) Namespaces() iter.Seq2[string, *Namespace] { return maps.All(tx.namespaces) }

// Policies returns the policies of the transaction; a nil one was deleted.
func (tx *Transaction) Policies() iter.Seq2[policy.Key, *networkingv1.NetworkPolicy] {
	return maps.All(tx.policies)
}

// ClusterPolicies returns the ClusterNetworkPolicies of the transaction; a nil one was
// deleted.
func (tx *Transaction) ClusterPolicies() iter.Seq2[string, *v1alpha2.ClusterNetworkPolicy] {
	return maps.All(tx.clusters)
}

// Nodes returns the nodes of the transaction; a nil one was deleted.
func (tx *Transaction) Nodes() iter.Seq2[string, *state.Node] { return maps.All(tx.nodes) }

// NodeAddrs returns the addresses of the node, and whether the transaction says
// them.
func (tx *Transaction) NodeAddrs() ([]netip.Addr, bool) {
	if tx.nodeAddrs == nil {
		return nil, false
	}
	return slices.Clone(*tx.nodeAddrs), true
}

// Observation returns what the reconciler read, nil for nothing.
func (tx *Transaction) Observation() *Observation { return tx.observed }

// Len returns the number of objects in the transaction.
func (tx *Transaction) Len() int {
	n := len(tx.pods) + len(tx.namespaces) + len(tx.policies) + len(tx.clusters) + len(tx.nodes)
	if tx.nodeAddrs != nil {
		n++
	}
	return n
}

// ipv4 returns the IPv4 addresses of a list.
func ipv4(addrs []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool { return !a.Is4() })
}
