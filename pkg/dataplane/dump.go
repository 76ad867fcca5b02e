package dataplane

import "github.com/winnpm/winnpm/pkg/hns"

// Dump is a snapshot of the dataplane's state as plain values, sorted; what the
// debug endpoint shows and what explanations are made from.
type Dump struct {
	Node       string          `json:"node"`
	Sets       []SetDump       `json:"sets"`
	Pending    []PendingDump   `json:"pending"`
	Endpoints  []EndpointDump  `json:"endpoints"`
	Policies   []PolicyDump    `json:"policies"`
	Pods       []PodDump       `json:"pods"`
	Namespaces []NamespaceDump `json:"namespaces"`
	NodeAddrs  []string        `json:"nodeAddresses"`
	Warnings   []Warning       `json:"warnings"`
	Reports    []Report        `json:"reports"` // the last ones, oldest first
}

// SetDump is one set of the cache.
type SetDump struct {
	ID      string   `json:"id"`
	Name    string   `json:"name"`
	Type    string   `json:"type"`
	Members []string `json:"members"` // wanted: addresses, or names of sets
	Holders []string `json:"holders"` // "rule <endpoint>", "list <set>", "selector <policy>", "applied <endpoint>"
	Pins    []string `json:"pins"`    // who pins it
	InHNS   bool     `json:"inHNS"`
	Dirty   bool     `json:"dirty"` // HNS has other members, or none known
}

// PendingDump is one outstanding pod update.
type PendingDump struct {
	Pod      string   `json:"pod"`
	UID      string   `json:"uid"`
	Endpoint string   `json:"endpoint,omitempty"` // empty: none seen yet
	Join     []string `json:"join"`               // net: sets that its ACLs will name
	Leave    []string `json:"leave"`
	Attempts int      `json:"attempts"`
	Error    string   `json:"error,omitempty"`
}

// EndpointDump is one local endpoint.
type EndpointDump struct {
	ID      string    `json:"id"`
	Addrs   []string  `json:"addresses"`
	Pod     string    `json:"pod,omitempty"`
	Applied []hns.ACL `json:"applied"` // ours, as last known
	Wanted  []hns.ACL `json:"wanted"`
	Known   bool      `json:"known"`   // false: the outcome of a write is not known
	Foreign int       `json:"foreign"` // policies of others
}

// PolicyDump is one NetworkPolicy.
type PolicyDump struct {
	Policy   string   `json:"policy"`  // namespace/name
	Ingress  bool     `json:"ingress"` // isolates for ingress
	Egress   bool     `json:"egress"`
	Rules    int      `json:"rules"`
	Selected []string `json:"selected"` // local pods
	Problems []string `json:"problems,omitempty"`
}

// PodDump is one pod of the cluster.
type PodDump struct {
	Pod    string            `json:"pod"`
	UID    string            `json:"uid"`
	Addr   string            `json:"address,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	Local  bool              `json:"local"`
	Owner  bool              `json:"owner"` // of its address
	// HostNetwork and Finished pods own no address and have no endpoint.
	HostNetwork bool     `json:"hostNetwork,omitempty"`
	Finished    bool     `json:"finished,omitempty"`
	Endpoints   []string `json:"endpoints,omitempty"`
}

// NamespaceDump is one Namespace object.
type NamespaceDump struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
}
