// Package state has the types that describe the dataplane's state as plain values: a dump, the
// report of a transaction, active warnings, and the numbers for Prometheus. The dataplane fills
// them. Packages that show or explain the state read these values and need nothing else of the
// dataplane. They have no locks and do no I/O.
package state

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
)

// Dump is a sorted snapshot of the dataplane's state. The debug endpoint shows it, and explanations
// are derived from it.
type Dump struct {
	Node      string         `json:"node"`
	Time      time.Time      `json:"time,omitzero"` // when it was taken
	Sets      []SetDump      `json:"sets"`
	Pending   []Pending      `json:"pending"`
	Endpoints []EndpointDump `json:"endpoints"`
	Policies  []PolicyDump   `json:"policies"`
	// ClusterPolicies are the ClusterNetworkPolicies, and Nodes the nodes that they may have as
	// peers.
	ClusterPolicies []ClusterPolicy `json:"clusterPolicies,omitempty"`
	Nodes           []NodeDump      `json:"nodes,omitempty"`
	Pods            []PodDump       `json:"pods"`
	Namespaces      []NamespaceDump `json:"namespaces"`
	NodeAddrs       []string        `json:"nodeAddresses"`
	Warnings        []Warning       `json:"warnings"`
	Reports         []Report        `json:"reports"` // the last ones, oldest first
	Due             DueDump         `json:"due"`
	// Spellings lists rules and sets that HNS shows in another form than they were written in.
	Spellings []SpellingSeen `json:"spellings,omitempty"`
	// OthersCut is set if foreign ACLs are sent back cut to their documented fields.
	OthersCut bool `json:"othersCut,omitempty"`
	// Transaction is the progress of the transaction that was running, or nil.
	Transaction *Progress `json:"transaction,omitempty"`
	// LookAge is the time since the object was read whose last look is the oldest, in nanoseconds.
	// It shows how long a round of looks takes.
	LookAge time.Duration `json:"lookAge,omitempty"`
}

// DueDump lists the pending work besides pod updates.
type DueDump struct {
	// New lists endpoints that HNS enumerates and that were not read yet, or could not be read.
	New []Unread `json:"new,omitempty"`
}

// Unread is an endpoint that was enumerated and not read.
type Unread struct {
	ID   string    `json:"id"`
	Came time.Time `json:"came,omitzero"` // when it was first listed
	RetryDump
}

// RetryDump is the state of a backoff.
type RetryDump struct {
	Attempts int       `json:"attempts,omitempty"`
	At       time.Time `json:"at,omitzero"` // zero: nothing is due
	Error    string    `json:"error,omitempty"`
}

// SetDump is one known set.
type SetDump struct {
	ID      string   `json:"id"`
	Name    string   `json:"name"`
	Type    string   `json:"type"`
	Called  string   `json:"called,omitempty"` // the name in HNS, if Name is too long for it
	Members []string `json:"members"`          // desired: addresses, or names of sets
	Holders []string `json:"holders"`          // "rule <endpoint>", "list <set>", "selector <policy>", "applied <endpoint>"
	Pins    []string `json:"pins"`             // the holders of its pins
	InHNS   bool     `json:"inHNS"`
	Dirty   bool     `json:"dirty"` // its actual members are unknown, or differ from the desired ones
	// Fed is set if the set is orphaned and its members still follow the definition in its name.
	Fed bool `json:"fed,omitempty"`

	// Missing lists desired members that HNS lacks, and Surplus actual members that are not desired.
	// A nested set has a permanent empty member, because without any member it would match
	// everything. If HNS lacks that member, it is in Missing.
	Missing []string  `json:"missing,omitempty"`
	Surplus []string  `json:"surplus,omitempty"`
	Unknown bool      `json:"unknown,omitempty"` // the actual members are unknown
	Since   time.Time `json:"since,omitzero"`    // since when the set is needed and not as desired
	Spare   time.Time `json:"spare,omitzero"`    // since when the set is in HNS and unused
	Refused bool      `json:"refused,omitempty"` // HNS rejects the desired set
	// Again is the next retry of a rejected write or a failed removal.
	Again *AgainDump `json:"again,omitempty"`
}

// AgainDump is a retry that becomes due although nothing changed.
type AgainDump struct {
	At       time.Time `json:"at"`
	Attempts int       `json:"attempts,omitempty"`
	Code     uint32    `json:"code,omitempty"` // HRESULT of the last attempt
}

// Pending is one outstanding pod update.
type Pending struct {
	Pod      string   `json:"pod"`
	UID      string   `json:"uid"`
	Endpoint string   `json:"endpoint,omitempty"` // empty if none was seen yet
	Join     []string `json:"join"`               // sets that its ACLs will name and do not name yet
	Leave    []string `json:"leave"`              // sets that its ACLs name and will not name any more
	Attempts int      `json:"attempts"`
	Error    string   `json:"error,omitempty"`
}

// EndpointDump is one local endpoint. All rules are canonical, so rules with the same meaning are
// equal.
type EndpointDump struct {
	ID    string   `json:"id"`
	Addrs []string `json:"addresses"`
	IPv6  []string `json:"ipv6,omitempty"` // its IPv6 addresses, which are in no set
	Pod   string   `json:"pod,omitempty"`
	// Equal lists of rules may share one slice, also between endpoints. They must not be changed in
	// place.
	Applied []hns.ACL `json:"applied"` // our actual rules, as last known
	Wanted  []hns.ACL `json:"wanted"`  // our desired rules; the same slice as Applied if they are equal
	Known   bool      `json:"known"`   // false if the outcome of a write is unknown
	Foreign int       `json:"foreign"` // number of policies of other programs

	// Sources has the source of each desired ACL.
	Sources []RuleSource `json:"sources"`
	// Maybe lists the possible actual rules while the outcome of a write is unknown: one of these
	// lists is in HNS.
	Maybe [][]hns.ACL `json:"maybe,omitempty"`
	// ForeignRules are the ACLs among the policies of other programs. Tiered is set if these
	// policies include tiered rules.
	ForeignRules []hns.ACL `json:"foreignRules,omitempty"`
	Tiered       bool      `json:"tiered,omitempty"`
	Since        time.Time `json:"since,omitzero"` // since when an update is outstanding
	Next         Next      `json:"next"`
}

// Next describes the next write of an endpoint.
type Next struct {
	Version  hns.Version `json:"version,omitempty"`  // the version that the write is planned from
	Due      time.Time   `json:"due,omitzero"`       // the earliest time of the write
	Attempts int         `json:"attempts,omitempty"` // failed attempts
	Error    string      `json:"error,omitempty"`    // of the last attempt
	Refused  []string    `json:"refused,omitempty"`  // quarantined policies; "/Id" for a rule of no single policy
	// Again has the next attempt for each entry of Refused.
	Again   map[string]AgainDump `json:"again,omitempty"`
	Turn    uint64               `json:"turn,omitempty"`    // place in the queue of pending updates
	Exposed bool                 `json:"exposed,omitempty"` // its block is missing, so it may be open
}

// PolicyDump is one NetworkPolicy.
type PolicyDump struct {
	Policy   string   `json:"policy"`  // namespace/name
	Ingress  bool     `json:"ingress"` // isolates for ingress
	Egress   bool     `json:"egress"`
	Rules    int      `json:"rules"`
	Selected []string `json:"selected"` // local pods
	Problems []string `json:"problems,omitempty"`
	// Spec is shared with the object and must not be changed.
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
	// InDoubt is set if pods of several namespaces claim the address, so that it is in no set.
	InDoubt bool `json:"inDoubt,omitempty"`
	// HostNetwork and Finished pods own no address and have no endpoint.
	HostNetwork bool     `json:"hostNetwork,omitempty"`
	Finished    bool     `json:"finished,omitempty"`
	Endpoints   []string `json:"endpoints,omitempty"`
	// Ports lists the named ports as name:number/protocol.
	Ports []string `json:"ports,omitempty"`
	// Deleting, Started and Created help to decide which pod owns a contested address.
	Deleting bool      `json:"deleting,omitempty"`
	Started  time.Time `json:"started,omitzero"`
	Created  time.Time `json:"created,omitzero"`
	// Trust is the state of the pod's node while pods of other nodes contest the address. -1: the
	// address is in the node's podCIDRs; 1: it is not; 2: the node is gone or not ready; 0: unknown.
	Trust int8 `json:"trust,omitempty"`
	// Sandbox is what the CNI plugin said about the sandbox in which the pod starts.
	Sandbox Sandbox `json:"sandbox,omitzero"`
	// Grace is how long the containers may run on after a delete. LostUntil is set only for a pod
	// whose object was deleted before the pod had finished: until then its address is denied.
	Grace     time.Duration `json:"grace,omitempty"`
	LostUntil time.Time     `json:"lostUntil,omitzero"`
	// Start is set for a local pod that was created while the agent ran, and that policies isolated
	// when its endpoint first had its rules.
	Start *Start `json:"start,omitempty"`
	// OverBudget says how the object exceeds its budget; empty if it does not.
	OverBudget string `json:"overBudget,omitempty"`
}

// Sandbox is what the CNI plugin said about the sandbox in which a pod starts. Each sandbox has its
// own endpoints, which exist in HNS before the sandbox runs.
type Sandbox struct {
	ID string `json:"id,omitempty"` // given by the container runtime; "" if the plugin named no sandbox
	// Netns is the GUID of the HNS namespace of its endpoints, or "" if the runtime names none.
	Netns string    `json:"netns,omitempty"`
	Told  time.Time `json:"told,omitzero"` // when the plugin's claim came in
	// Round is the number of the latest wait for this sandbox. The waits of all pods of the node are
	// numbered together. All events before the wait are staged with the round or earlier.
	Round int `json:"round,omitempty"`
}

// Same reports whether two values are the same sandbox in the same round.
func (s Sandbox) Same(o Sandbox) bool {
	return s.ID == o.ID && s.Netns == o.Netns && s.Told.Equal(o.Told) && s.Round == o.Round
}

// NamespaceDump is one Namespace object.
type NamespaceDump struct {
	Name       string            `json:"name"`
	Labels     map[string]string `json:"labels,omitempty"`
	OverBudget string            `json:"overBudget,omitempty"` // how the object exceeds its budget
}

// ClusterPolicy is one ClusterNetworkPolicy.
type ClusterPolicy struct {
	Name     string   `json:"name"`
	Selected []string `json:"selected"` // local pods
	Problems []string `json:"problems,omitempty"`
	// Spec is shared with the object and must not be changed.
	Spec *v1alpha2.ClusterNetworkPolicySpec `json:"spec,omitempty"`
}

// RuleSource says from which rule of a policy an ACL was made.
type RuleSource struct {
	TierSource
	// Rules are the indexes of all rules of the policy that the ACL was made from.
	Rules []int `json:"rules,omitempty"`
	// Passed are the Pass rules that a connection matches before this rule, in order.
	Passed []TierSource `json:"passed,omitempty"`
}

// Equal reports whether two rules came from the same places.
func (s RuleSource) Equal(other RuleSource) bool {
	return s.TierSource == other.TierSource && slices.Equal(s.Rules, other.Rules) && slices.Equal(s.Passed, other.Passed)
}

// TierSource identifies a rule of a policy. It has no policy for the block that NetworkPolicies
// share, and for our rules for the node and for all pods.
type TierSource struct {
	Tier   string `json:"tier,omitempty"`   // Admin, NetworkPolicy or Baseline
	Policy string `json:"policy,omitempty"` // namespace/name, or the name of a ClusterNetworkPolicy
	Rule   int    `json:"rule"`             // index in its direction
	Name   string `json:"name,omitempty"`
}

// NodeDump is a node of the cluster, with the fields that ClusterNetworkPolicies select by.
type NodeDump struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
	Addrs  []netip.Addr      `json:"addresses,omitempty"` // of status.addresses, IPv4
	// OverBudget says how the object exceeds its budget. Such a node has no labels here.
	OverBudget string `json:"overBudget,omitempty"`
}

// Same reports whether two states of a node have the same effect.
func (n *NodeDump) Same(o *NodeDump) bool {
	return n.OverBudget == o.OverBudget && maps.Equal(n.Labels, o.Labels) && slices.Equal(n.Addrs, o.Addrs)
}

// ACLID returns the Id of the allow rules of a policy. Namespaces have no dot, so the key can be
// recovered from the Id.
func ACLID(key policy.Key) string { return hns.ACLIDPrefix + key.Namespace + "." + key.Name }
