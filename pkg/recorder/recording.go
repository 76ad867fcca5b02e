// Package recorder is the flight recorder: it keeps the last transactions of a
// dataplane, with what came in, what was asked of HNS and what came back, so
// that they can be looked at and played again elsewhere.
//
// It sits beside the dataplane, not in it: as a wrapper of the hns.Client below
// and of ApplyDataplane and Observe above.
package recorder

import (
	"net/netip"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// Format is the version of what a Recording is written as. Format 1, which has neither
// looks nor calls of the DLLs, can be read too.
const Format = 2

// Recording is what was kept, oldest first.
type Recording struct {
	Format   int       `json:"format"` // that it was written in
	Node     string    `json:"node"`
	Agent    string    `json:"agent"` // version of the program
	Taken    time.Time `json:"taken"`
	Settings Settings  `json:"settings"`
	// Start is the state before the first step; nil when the recording begins with the
	// process, which knew nothing then. The first Observation may have begun before Start,
	// when it had not come in yet as the state was taken.
	Start *state.Dump `json:"start,omitempty"`
	// Forgotten counts the steps that are missing, without observations that had no
	// consequence. When it is not 0 and there is no Start, there are no steps either: the
	// last ones were too large.
	Forgotten uint64 `json:"forgotten"`
	// Steps are in the order of their numbers. The last ones may be running.
	Steps []Step `json:"steps"`
}

// Settings are those of the dataplane's Config that decide what it does.
type Settings struct {
	Network        string        `json:"network"` // of HNS
	GracePeriod    time.Duration `json:"gracePeriod"`
	MaxBatchedACLs int           `json:"maxBatchedACLs"`
	MaxRepairs     int           `json:"maxRepairs"`
	BaseACLs       []hns.ACL     `json:"baseACLs,omitempty"`
	Unchecked      bool          `json:"unchecked,omitempty"`
	// Budgets are the defaults where they are absent, as in recordings of older agents.
	Budgets policy.Budgets `json:"budgets,omitzero"`
}

// NewSettings returns those of a dataplane on a network of HNS.
func NewSettings(network string, cfg dataplane.Config) Settings {
	return Settings{
		Network: network, GracePeriod: cfg.GracePeriod, MaxBatchedACLs: cfg.MaxBatchedACLs,
		MaxRepairs: cfg.MaxRepairs, BaseACLs: cfg.BaseACLs, Unchecked: cfg.Unchecked, Budgets: cfg.Budgets,
	}
}

// The kinds of steps.
const (
	Transaction = "transaction" // an ApplyDataplane
	// Observation is an Observe, which may overlap with a transaction. One that is
	// over and found nothing new is not kept.
	Observation = "observation"
)

// Step is one call of the dataplane.
type Step struct {
	// Number counts the steps of the process from 1, in the order in which they
	// began, those included that are not kept.
	Number uint64        `json:"number"`
	Kind   string        `json:"kind"`
	Began  time.Time     `json:"began"`
	Took   time.Duration `json:"took"` // nanoseconds, so far when it is running
	// Running: it had not ended when this was taken. The last of its calls may be
	// running as well.
	Running bool    `json:"running,omitempty"`
	Events  []Event `json:"events,omitempty"`
	// Look is what an Observation was asked to read; nil for everything, in
	// recordings that are older.
	Look *dataplane.Look `json:"look,omitempty"`
	// Again counts the observations after this one that failed as it did, with the
	// same words. They are not kept.
	Again int `json:"again,omitempty"`
	// Observed is the number of the Observation that came in with a Transaction,
	// 0 for none.
	Observed uint64 `json:"observed,omitempty"`
	Calls    []Call `json:"calls,omitempty"` // of HNS, in order
	// DLLCalls is how many calls of the DLLs of HNS all that was, so far when it is
	// running.
	DLLCalls int `json:"dllCalls,omitempty"`
	// MoreEvents, MoreCalls and MoreEndpoints are how many Brief left out: the later
	// events, the earlier calls, the later endpoints of the Look.
	MoreEvents    int `json:"moreEvents,omitempty"`
	MoreCalls     int `json:"moreCalls,omitempty"`
	MoreEndpoints int `json:"moreEndpoints,omitempty"`
	// Report is what the dataplane returned. Error is the text of its error, which is the
	// context's.
	Report *state.Report `json:"report,omitempty"`
	Error  string        `json:"error,omitempty"`
}

// The operations of an Event.
const (
	Set    = "set"
	Delete = "delete"
)

// The kinds of objects in an Event.
const (
	KindPod       = "pod"
	KindNamespace = "namespace"
	KindPolicy    = "policy"
	KindNode      = "node" // its addresses; Object is empty

	KindClusterPolicy = "clusterPolicy"
	KindClusterNode   = "clusterNode" // a node of the cluster, for ClusterNetworkPolicies
)

// Event is one object that came in. Of the pointers the one of its kind is set,
// unless the object was deleted.
type Event struct {
	Kind      string `json:"kind"`
	Operation string `json:"operation"`
	Object    string `json:"object"` // namespace/name, or name

	Pod       *desired.Pod       `json:"pod,omitempty"`
	Finished  bool               `json:"finished,omitempty"` // the pod had finished before it was deleted or replaced
	Namespace *desired.Namespace `json:"namespace,omitempty"`
	Policy    *Policy            `json:"policy,omitempty"`
	NodeAddrs []netip.Addr       `json:"nodeAddresses,omitempty"`

	ClusterPolicy *ClusterPolicy `json:"clusterPolicy,omitempty"`
	ClusterNode   *state.Node    `json:"clusterNode,omitempty"`
}

// Policy is a NetworkPolicy without its other metadata: annotations may hold anything.
type Policy struct {
	Namespace string                         `json:"namespace"`
	Name      string                         `json:"name"`
	UID       string                         `json:"uid,omitempty"`
	Spec      networkingv1.NetworkPolicySpec `json:"spec"`
}

// ClusterPolicy is a ClusterNetworkPolicy without what nobody asks for.
type ClusterPolicy struct {
	Name string                            `json:"name"`
	UID  string                            `json:"uid,omitempty"`
	Spec v1alpha2.ClusterNetworkPolicySpec `json:"spec"`
}

// Call is one request to HNS and what came of it.
type Call struct {
	Op       string        `json:"op"` // as package hns names operations
	Endpoint string        `json:"endpoint,omitempty"`
	Began    time.Time     `json:"began"`
	Took     time.Duration `json:"took"`
	Running  bool          `json:"running,omitempty"`
	Error    *Error        `json:"error,omitempty"`
	// DLLCalls is how many calls of the DLLs of HNS it was, once it is over. The
	// closing of a handle that calls share is one of the last of them.
	DLLCalls int `json:"dllCalls,omitempty"`
	// Count is the number of sets, ACLs or policies that were sent, or of sets,
	// endpoints or GUIDs that were read.
	Count int `json:"count,omitempty"`

	// What was sent.
	Sets     []SetValue           `json:"sets,omitempty"`
	ACLs     []hns.ACL            `json:"acls,omitempty"`
	Policies []hns.EndpointPolicy `json:"policies,omitempty"`
	// What was read.
	Network *NetworkValue `json:"network,omitempty"`
	IDs     []string      `json:"ids,omitempty"`     // of endpoints, GUIDs
	SameIDs bool          `json:"sameIds,omitempty"` // in the text of a recording only: IDs are as they were last read
	// Endpoints is one endpoint, or all there were where an older build read all at once.
	Endpoints []EndpointValue `json:"endpoints,omitempty"`
	// Cut: not all of it was kept. What was left out has a Count and a Digest, here for
	// ACLs and policies that were sent, and for IDs.
	Cut    bool   `json:"cut,omitempty"`
	Digest string `json:"digest,omitempty"`
}

// Error has of a call's error what decisions are made from.
type Error struct {
	Class   string `json:"class"` // text of one of the classes of package hns
	Op      string `json:"op,omitempty"`
	Kind    string `json:"kind,omitempty"`
	ID      string `json:"id,omitempty"`
	Code    uint32 `json:"code,omitempty"` // HRESULT
	Message string `json:"message"`
}

// SetValue is a set with its values. A long list is left out.
type SetValue struct {
	ID     string      `json:"id"`
	Name   string      `json:"name,omitempty"`
	Type   hns.SetType `json:"type,omitempty"`
	Values []string    `json:"values"` // nil: left out
	Count  int         `json:"count"`
	Digest string      `json:"digest,omitempty"` // of the sorted values when they are left out
	Same   bool        `json:"same,omitempty"`   // in the text of a recording only: as that set was last read
}

// NetworkValue is a network as it was read.
type NetworkValue struct {
	ID   string     `json:"id"`
	Name string     `json:"name"`
	Sets []SetValue `json:"sets"`
}

// EndpointValue is an endpoint as it was read. A long list of policies is left
// out.
type EndpointValue struct {
	ID       string               `json:"id"`
	Addrs    []netip.Addr         `json:"addresses"`
	Netns    string               `json:"netns,omitempty"`
	Policies []hns.EndpointPolicy `json:"policies"` // nil: left out
	Count    int                  `json:"count"`
	Version  hns.Version          `json:"version"`        // of the whole
	Same     bool                 `json:"same,omitempty"` // in the text of a recording only: as that endpoint was last read
}
