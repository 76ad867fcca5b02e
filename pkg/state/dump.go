// Package state has the dataplane's state as plain values: a dump, the report of a
// transaction, active warnings, and the numbers for Prometheus. The dataplane makes
// them. Whoever shows or explains its state reads them from here, and needs nothing of
// the dataplane itself. A value has no lock and does no I/O.
package state

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/hns"
)

// Dump is a snapshot of the dataplane's state as plain values, sorted; what the
// debug endpoint shows and what explanations are made from.
type Dump struct {
	Node      string         `json:"node"`
	Time      time.Time      `json:"time,omitzero"` // when it was taken
	Sets      []SetDump      `json:"sets"`
	Pending   []Pending      `json:"pending"`
	Endpoints []EndpointDump `json:"endpoints"`
	Policies  []PolicyDump   `json:"policies"`
	// ClusterPolicies are the tiers around Policies, Nodes what they may have for a peer.
	ClusterPolicies []ClusterPolicy `json:"clusterPolicies,omitempty"`
	Nodes           []NodeDump      `json:"nodes,omitempty"`
	Pods            []PodDump       `json:"pods"`
	Namespaces      []NamespaceDump `json:"namespaces"`
	NodeAddrs       []string        `json:"nodeAddresses"`
	Warnings        []Warning       `json:"warnings"`
	Reports         []Report        `json:"reports"` // the last ones, oldest first
	Due             DueDump         `json:"due"`
	// Spellings are how HNS shows what was written, where that has to be learned.
	Spellings []SpellingSeen `json:"spellings,omitempty"`
	// OthersCut: the ACLs of others go back cut to their documented fields.
	OthersCut bool `json:"othersCut,omitempty"`
	// Transaction is where the one was that ran then.
	Transaction *Progress `json:"transaction,omitempty"`
	// LookAge is for how long the object has not been read that was looked at longest
	// ago: how long a round of looks takes. Nanoseconds.
	LookAge time.Duration `json:"lookAge,omitempty"`
}

// DueDump is what waits for its time, beside pending updates.
type DueDump struct {
	// New are endpoints that HNS enumerates and that were not read, or could not be.
	New []Unread `json:"new,omitempty"`
}

// Unread is an endpoint of which nothing is known but its GUID.
type Unread struct {
	ID   string    `json:"id"`
	Came time.Time `json:"came,omitzero"` // when it was first listed
	RetryDump
}

// RetryDump is a backoff.
type RetryDump struct {
	Attempts int       `json:"attempts,omitempty"`
	At       time.Time `json:"at,omitzero"` // zero: nothing is due
	Error    string    `json:"error,omitempty"`
}

// SetDump is one set of the cache.
type SetDump struct {
	ID      string   `json:"id"`
	Name    string   `json:"name"`
	Type    string   `json:"type"`
	Called  string   `json:"called,omitempty"` // in HNS, where Name is longer than sets are called
	Members []string `json:"members"`          // desired: addresses, or names of sets
	Holders []string `json:"holders"`          // "rule <endpoint>", "list <set>", "selector <policy>", "applied <endpoint>"
	Pins    []string `json:"pins"`             // who pins it
	InHNS   bool     `json:"inHNS"`
	Dirty   bool     `json:"dirty"` // HNS has other members, or none known
	// Fed: the set is orphaned, and its members follow what its name says.
	Fed bool `json:"fed,omitempty"`

	// What is known of HNS where that differs: members that it lacks and those
	// that it has besides. A nested set has a permanent empty member, which is in
	// Missing when HNS has it not: without any member it matches everything.
	Missing []string  `json:"missing,omitempty"`
	Surplus []string  `json:"surplus,omitempty"`
	Unknown bool      `json:"unknown,omitempty"` // what HNS has is not known
	Since   time.Time `json:"since,omitzero"`    // since when it is needed and not as it should be
	Spare   time.Time `json:"spare,omitzero"`    // since when it is in HNS and nobody needs it
	Refused bool      `json:"refused,omitempty"` // HNS refuses what is desired
	// Again is when HNS is asked again for what it refused, or did not remove.
	Again *AgainDump `json:"again,omitempty"`
}

// AgainDump is a try that is due though nothing changed.
type AgainDump struct {
	At       time.Time `json:"at"`
	Attempts int       `json:"attempts,omitempty"`
	Code     uint32    `json:"code,omitempty"` // HRESULT of the last one
}

// Pending is one outstanding pod update.
type Pending struct {
	Pod      string   `json:"pod"`
	UID      string   `json:"uid"`
	Endpoint string   `json:"endpoint,omitempty"` // empty: none seen yet
	Join     []string `json:"join"`               // net: sets that its ACLs will name
	Leave    []string `json:"leave"`
	Attempts int      `json:"attempts"`
	Error    string   `json:"error,omitempty"`
}

// EndpointDump is one local endpoint. All rules are canonical, so those that mean
// the same are equal.
type EndpointDump struct {
	ID    string   `json:"id"`
	Addrs []string `json:"addresses"`
	IPv6  []string `json:"ipv6,omitempty"` // its IPv6 addresses, which are in no set
	Pod   string   `json:"pod,omitempty"`
	// Lists of rules that are equal may be one slice, of several endpoints too: nobody changes
	// one in place.
	Applied []hns.ACL `json:"applied"` // ours, as last known
	Wanted  []hns.ACL `json:"wanted"`  // the same list as Applied, in memory too, where they are equal
	Known   bool      `json:"known"`   // false: the outcome of a write is not known
	Foreign int       `json:"foreign"` // policies of others

	// Sources are what each desired ACL came from.
	Sources []RuleSource `json:"sources"`
	// Maybe are the lists of ours one of which is there, when that is not known.
	Maybe [][]hns.ACL `json:"maybe,omitempty"`
	// ForeignRules are the ACLs among the policies of others; Tiered, there are
	// tiered rules among them.
	ForeignRules []hns.ACL `json:"foreignRules,omitempty"`
	Tiered       bool      `json:"tiered,omitempty"`
	Since        time.Time `json:"since,omitzero"` // since when an update is outstanding
	Next         Next      `json:"next"`
}

// Next is what the next write of an endpoint depends on.
type Next struct {
	Version  hns.Version `json:"version,omitempty"`  // that it is planned from
	Due      time.Time   `json:"due,omitzero"`       // not before
	Attempts int         `json:"attempts,omitempty"` // that failed
	Error    string      `json:"error,omitempty"`    // of the last one
	Refused  []string    `json:"refused,omitempty"`  // policies that are quarantined; "/Id" for a rule that all share
	// Again says when HNS is asked again for what it refused.
	Again   map[string]AgainDump `json:"again,omitempty"`
	Turn    uint64               `json:"turn,omitempty"`    // in the queue of pending updates
	Exposed bool                 `json:"exposed,omitempty"` // it lost its block
}

// PolicyDump is one NetworkPolicy.
type PolicyDump struct {
	Policy   string   `json:"policy"`  // namespace/name
	Ingress  bool     `json:"ingress"` // isolates for ingress
	Egress   bool     `json:"egress"`
	Rules    int      `json:"rules"`
	Selected []string `json:"selected"` // local pods
	Problems []string `json:"problems,omitempty"`
	// Spec is the object's; whoever reads it must not change it.
	Spec *networkingv1.NetworkPolicySpec `json:"spec,omitempty"`
}

// PodDump is one pod of the cluster.
type PodDump struct {
	Pod    string            `json:"pod"`
	UID    string            `json:"uid"`
	Addr   string            `json:"address,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	Local  bool              `json:"local"`
	Owner  bool              `json:"owner"` // of its address
	// InDoubt: pods of several namespaces claim its address, so it is in no set.
	InDoubt bool `json:"inDoubt,omitempty"`
	// HostNetwork and Finished pods own no address and have no endpoint.
	HostNetwork bool     `json:"hostNetwork,omitempty"`
	Finished    bool     `json:"finished,omitempty"`
	Endpoints   []string `json:"endpoints,omitempty"`
	// Ports are the named ones, written name:number/protocol.
	Ports []string `json:"ports,omitempty"`
	// What decides who owns an address, beside the address.
	Deleting bool      `json:"deleting,omitempty"`
	Started  time.Time `json:"started,omitzero"`
	Created  time.Time `json:"created,omitzero"`
	// Trust is the state of the pod's node while pods of other nodes contest the address. -1: the
	// address is in the node's podCIDRs; 1: it is not; 2: the node is gone or not ready; 0: unknown.
	Trust int8 `json:"trust,omitempty"`
	// Sandbox is what the CNI told of the one that it starts in.
	Sandbox Sandbox `json:"sandbox,omitzero"`
	// Grace is how long the containers may run on after a delete. LostUntil is set only for a pod
	// whose object was deleted before the pod had finished: until then its address is denied.
	Grace     time.Duration `json:"grace,omitempty"`
	LostUntil time.Time     `json:"lostUntil,omitzero"`
	// Start is of a local pod that came while the agent ran, and that was isolated when
	// its endpoint was first right.
	Start *Start `json:"start,omitempty"`
	// OverBudget says in what the object is over its budget.
	OverBudget string `json:"overBudget,omitempty"`
}

// Sandbox is what the CNI told of the sandbox that a pod starts in. Each one has endpoints
// of its own, which HNS has before the sandbox runs.
type Sandbox struct {
	ID string `json:"id,omitempty"` // of the container runtime; "": nobody told of one
	// Netns is the GUID of the HNS namespace that its endpoints are in, "" where the runtime
	// names none.
	Netns string    `json:"netns,omitempty"`
	Told  time.Time `json:"told,omitzero"` // when the CNI began to ask
	// Round numbers the questions whether a pod of the node may start: the last one about this
	// sandbox. What the agent knew before is staged with it.
	Round int `json:"round,omitempty"`
}

// Same reports whether two sandboxes are one, asked for as often.
func (s Sandbox) Same(o Sandbox) bool {
	return s.ID == o.ID && s.Netns == o.Netns && s.Told.Equal(o.Told) && s.Round == o.Round
}

// NamespaceDump is one NamespaceDump object.
type NamespaceDump struct {
	Name       string            `json:"name"`
	Labels     map[string]string `json:"labels,omitempty"`
	OverBudget string            `json:"overBudget,omitempty"` // in what the object is
}

// ClusterPolicy is one ClusterNetworkPolicy.
type ClusterPolicy struct {
	Name     string   `json:"name"`
	Selected []string `json:"selected"` // local pods
	Problems []string `json:"problems,omitempty"`
	// Spec is the object's; whoever reads it must not change it.
	Spec *v1alpha2.ClusterNetworkPolicySpec `json:"spec,omitempty"`
}

// RuleSource is what a rule of an endpoint came from.
type RuleSource struct {
	TierSource
	// Rules are the places of all rules of the policy that it came from.
	Rules []int `json:"rules,omitempty"`
	// Passed are the rules that passed the connection on, in order.
	Passed []TierSource `json:"passed,omitempty"`
}

// TierSource is a rule of a policy. Of the block that NetworkPolicies share, and of our
// rules for the node and for everybody, it has no policy.
type TierSource struct {
	Tier   string `json:"tier,omitempty"`   // Admin, NetworkPolicy or Baseline
	Policy string `json:"policy,omitempty"` // namespace/name, or the name of a ClusterNetworkPolicy
	Rule   int    `json:"rule"`             // its place in its direction
	Name   string `json:"name,omitempty"`
}

// NodeDump is a node of the cluster, as ClusterNetworkPolicies have it for a peer.
type NodeDump struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
	Addrs  []netip.Addr      `json:"addresses,omitempty"` // of status.addresses, IPv4
	// OverBudget says in what the object is over its budget. Such a node has no labels
	// here.
	OverBudget string `json:"overBudget,omitempty"`
}

// Same reports whether two states of a node of one name mean the same.
func (n *NodeDump) Same(o *NodeDump) bool {
	return n.OverBudget == o.OverBudget && maps.Equal(n.Labels, o.Labels) && slices.Equal(n.Addrs, o.Addrs)
}
