package desired

import (
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

// Pod is the state of a pod, reduced to the fields that the agent uses. A State never changes
// a Pod that it was given.
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

	// Node is the name of the pod's node. Only the controller uses it, and only sets it for pods of
	// other nodes.
	Node string `json:"-"`
	// Trust is Inside, Outside or Lost while the pod contests an address with pods of other nodes,
	// by the state of its node; otherwise 0.
	Trust int8 `json:"trust,omitempty"`

	// Grace is how long the containers may run on after a delete. Zero means DefaultGrace.
	Grace time.Duration `json:"grace,omitempty"`
	// LostUntil is set only for a lost pod, which State creates (ownership.go): its object is gone, and
	// its containers may run until then.
	LostUntil time.Time `json:"lostUntil,omitzero"`

	// OverBudget says how the object is over its budget, "" if it is not. Such a pod has neither
	// labels nor ports here, is in no set, and is closed in both directions.
	OverBudget string `json:"overBudget,omitempty"`
	// Size is the size of the labels and ports, which counts for the budget of the namespace. It
	// stays the same when labels and ports are dropped because of that budget.
	Size int `json:"-"`
}

// Values of Pod.Trust. They only rank several claims to one address: a single claim is valid with any
// of them.
const (
	Inside  = -1 // the address is in the node's podCIDRs
	Outside = 1  // the node has podCIDRs, and the address is in none of them
	Lost    = 2  // the Node object is gone, or has been not ready for a while
)

// Key returns the pod's name within the cluster.
func (p Pod) Key() PodKey { return PodKey{p.Namespace, p.Name} }

// Same reports whether two states of a pod of one name are equal, apart from
// Size.
func (p *Pod) Same(o *Pod) bool {
	return p.UID == o.UID && p.Addr == o.Addr && p.Local == o.Local && p.HostNetwork == o.HostNetwork &&
		p.Finished == o.Finished && p.Deleting == o.Deleting && p.Node == o.Node && p.Trust == o.Trust &&
		p.Grace == o.Grace && p.LostUntil.Equal(o.LostUntil) &&
		p.Started.Equal(o.Started) && p.Created.Equal(o.Created) && p.Sandbox.Same(o.Sandbox) && p.OverBudget == o.OverBudget &&
		maps.Equal(p.Labels, o.Labels) && slices.Equal(p.Ports, o.Ports)
}

// DefaultGrace is the grace period of a pod whose spec has none.
const DefaultGrace = 30 * time.Second

// LongestLost bounds the time for which a lost pod is kept.
const LongestLost = time.Hour

// IsLost reports whether this is a lost pod: its object is gone, and its containers may still run.
func (p *Pod) IsLost() bool { return !p.LostUntil.IsZero() }

// PodPort is a named container port.
type PodPort struct {
	Name     string          `json:"name"`
	Protocol policy.Protocol `json:"protocol"`
	Number   uint16          `json:"number"`
}

// PodKey names a pod. Over time several pods, with different UIDs, may have the same name.
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
	// OverBudget says how the object is over its budget, "" if it is not. Such a namespace has no
	// labels here and is in no set of a namespaceSelector.
	OverBudget string `json:"overBudget,omitempty"`
}

// Same reports whether two states of a namespace of one name are equal.
func (ns *Namespace) Same(o *Namespace) bool {
	return ns.OverBudget == o.OverBudget && maps.Equal(ns.Labels, o.Labels)
}

// Fit sets Size. It drops the labels and ports of a pod that is over policy.LabelBytes, and
// notes why. The pod is the caller's.
func (p *Pod) Fit() {
	names := make([]string, len(p.Ports))
	for i, port := range p.Ports {
		names[i] = port.Name
	}
	p.Size = policy.SizeOfPod(p.Labels, names...)
	if p.OverBudget = policy.ExcessOfLabels(p.Size); p.OverBudget != "" {
		p.Labels, p.Ports, p.Size = nil, nil, 0
	}
}

// Fit drops the labels of a namespace that is over policy.LabelBytes, and notes why. The
// namespace is the caller's.
func (ns *Namespace) Fit() {
	if ns.OverBudget = policy.ExcessOfLabels(policy.SizeOfPod(ns.Labels)); ns.OverBudget != "" {
		ns.Labels = nil
	}
}

// Objects collects the states of changed objects. It holds whole states: the last call for an
// object counts. One goroutine builds it, and it must not be used after it was
// staged.
type Objects struct {
	// A nil object was deleted.
	Pods            map[PodKey]*Pod
	Namespaces      map[string]*Namespace
	Policies        map[policy.Key]*networkingv1.NetworkPolicy
	ClusterPolicies map[string]*v1alpha2.ClusterNetworkPolicy
	Nodes           map[string]*state.NodeDump // of the cluster

	finished  map[PodKey]bool // pods that had finished before they were deleted or replaced
	nodeAddrs *[]netip.Addr   // of this node
}

// NewObjects returns an empty collection.
func NewObjects() Objects {
	return Objects{
		Pods:            map[PodKey]*Pod{},
		Namespaces:      map[string]*Namespace{},
		Policies:        map[policy.Key]*networkingv1.NetworkPolicy{},
		finished:        map[PodKey]bool{},
		ClusterPolicies: map[string]*v1alpha2.ClusterNetworkPolicy{},
		Nodes:           map[string]*state.NodeDump{},
	}
}

// SetPod sets the present state of a pod. It takes a copy.
func (o *Objects) SetPod(p Pod) {
	p.Labels, p.Ports = maps.Clone(p.Labels), slices.Clone(p.Ports)
	o.SharePod(&p)
}

// SharePod is SetPod without the copy. Callers must not change the pod, its labels or its ports
// afterwards. Pods may share labels and ports.
func (o *Objects) SharePod(p *Pod) { o.Pods[p.Key()] = p }

// DeletePod records that a pod was deleted. If its last state was not Finished, its containers may
// run on.
func (o *Objects) DeletePod(key PodKey) {
	o.Pods[key] = nil
	delete(o.finished, key)
}

// DeleteFinishedPod records that a pod was deleted after it had finished, even if State never saw it
// finished. SetPod may follow for another pod of the same name.
func (o *Objects) DeleteFinishedPod(key PodKey) {
	o.Pods[key] = nil
	o.finished[key] = true
}

// SetNamespace sets the present state of a namespace. It takes a copy.
func (o *Objects) SetNamespace(ns Namespace) {
	ns.Labels = maps.Clone(ns.Labels)
	o.Namespaces[ns.Name] = &ns
}

// DeleteNamespace records that a Namespace object was deleted.
func (o *Objects) DeleteNamespace(name string) { o.Namespaces[name] = nil }

// SetPolicy sets the present state of a policy. It does not change the object.
func (o *Objects) SetPolicy(np *networkingv1.NetworkPolicy) {
	o.Policies[policy.Key{Namespace: np.Namespace, Name: np.Name}] = np
}

// DeletePolicy records that a policy was deleted.
func (o *Objects) DeletePolicy(key policy.Key) { o.Policies[key] = nil }

// SetClusterPolicy sets the present state of a ClusterNetworkPolicy. It does not change the object.
func (o *Objects) SetClusterPolicy(cnp *v1alpha2.ClusterNetworkPolicy) {
	o.ClusterPolicies[cnp.Name] = cnp
}

// DeleteClusterPolicy records that a ClusterNetworkPolicy was deleted.
func (o *Objects) DeleteClusterPolicy(name string) { o.ClusterPolicies[name] = nil }

// SetNode sets the present state of a node of the cluster.
func (o *Objects) SetNode(n state.NodeDump) { o.Nodes[n.Name] = &n }

// DeleteNode records that a node was deleted.
func (o *Objects) DeleteNode(name string) { o.Nodes[name] = nil }

// SetNodeAddrs sets the addresses of this node, all InternalIPs. It keeps the IPv4 addresses
// only. Traffic from these addresses reaches every isolated pod, for the kubelet's
// probes.
func (o *Objects) SetNodeAddrs(addrs []netip.Addr) {
	sorted := slices.Compact(slices.SortedFunc(slices.Values(IPv4(addrs)), netip.Addr.Compare))
	o.nodeAddrs = &sorted
}

// NodeAddrs returns the addresses of this node, and whether SetNodeAddrs was called.
func (o *Objects) NodeAddrs() ([]netip.Addr, bool) {
	if o.nodeAddrs == nil {
		return nil, false
	}
	return slices.Clone(*o.nodeAddrs), true
}

// Len returns the number of objects.
func (o *Objects) Len() int {
	n := len(o.Pods) + len(o.Namespaces) + len(o.Policies) + len(o.ClusterPolicies) + len(o.Nodes)
	if o.nodeAddrs != nil {
		n++
	}
	return n
}

// IPv4 returns the IPv4 addresses of a list.
func IPv4(addrs []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool { return !a.Is4() })
}
