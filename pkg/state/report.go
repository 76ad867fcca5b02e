package state

import (
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
)

// Reason says what kept something from being programmed. Its values are part of the output format
// of `kubectl npm simulate`, except ForeignWrites and NodesUnknown, which cannot occur there.
type Reason string

// The reasons of the dataplane. Those of package policy come in addition.
const (
	ReasonOverBudget   = Reason(policy.ReasonOverBudget)
	ReasonNodesUnknown = Reason(policy.ReasonNodesUnknown)

	ReasonHNSRejected    Reason = "HNSRejected"
	ReasonHNSUnavailable Reason = "HNSUnavailable"
	ReasonForeignWrites  Reason = "ForeignWrites"
	// ReasonAddressContested means that several pods claim an address, or that a pod of this node
	// reports an address that no pod can have.
	ReasonAddressContested Reason = "AddressContested"
	// ReasonIPv6Blocked means that a pod of this node has IPv6 addresses, and its policies block all
	// of its IPv6 traffic in at least one direction: sets hold IPv4 addresses only.
	ReasonIPv6Blocked Reason = "IPv6Blocked"
	// ReasonSelectsNothing means that a policy selects no pod of the cluster, perhaps because of a
	// typing error. It is in no report, because nothing is missing in HNS.
	ReasonSelectsNothing Reason = "SelectsNothing"
)

// Warning says that something is not as the user asked: a part is left out, or not programmed yet.
// It is active as long as its cause lasts.
type Warning struct {
	Object  string `json:"object"` // namespace/name, or a set's name
	Kind    string `json:"kind"`   // NetworkPolicy, ClusterNetworkPolicy, Pod, RemotePod, Namespace, Endpoint, Set, Node
	Reason  Reason `json:"reason"`
	Message string `json:"message"` // one line: what, where, what to do
}

// Report describes the result of one transaction. Dumps and callers share its lists, so they must
// not be changed in place.
type Report struct {
	// Generation counts the transactions of this process.
	Generation uint64        `json:"generation"`
	Started    time.Time     `json:"started"`
	Took       time.Duration `json:"took"` // nanoseconds
	// Busy is the part of Took that HNS took.
	Busy time.Duration `json:"busy,omitempty"`
	// Objects is the number of object changes that came in.
	Objects int `json:"objects"`
	// Changes counts the object changes that had an effect, sorted.
	Changes []ObjectChange `json:"changes,omitempty"`
	// NewEndpoints lists endpoints that were seen for the first time, once per address.
	NewEndpoints []EndpointSeen `json:"newEndpoints,omitempty"`
	// Starts lists the pods whose endpoints now have their rules for the first time, sorted.
	Starts []PodStart `json:"starts,omitempty"`
	// Repairs lists the repaired changes of other programs, sorted.
	Repairs []Repair `json:"repairs,omitempty"`
	// Spellings lists newly learned forms in which HNS shows rules and sets.
	Spellings []SpellingSeen `json:"spellings,omitempty"`
	// Plan counts, in one line, the objects of the write requests, successful or not; empty if
	// there were none.
	Plan string `json:"plan,omitempty"`
	// Calls counts the requests by kind and verb: "SetPolicy/Add", "ACL/Update".
	Calls map[string]int `json:"calls,omitempty"`
	// Errors lists the errors of HNS, in order.
	Errors []string `json:"errors,omitempty"`
	// Pending is the number of outstanding pod updates.
	Pending int `json:"pending"`
	// Unprogrammed is the latest generation that is not completely in HNS; 0 if all are. Later
	// generations are in HNS.
	Unprogrammed uint64 `json:"unprogrammed,omitempty"`
	// Waiting lists the generations that may not be completely in HNS yet, in order. All other
	// generations are in HNS.
	Waiting []Span `json:"waiting,omitempty"`
	// Longest is the longest time without progress in this transaction, except in calls of HNS, if
	// it was a second or more.
	Longest *Piece `json:"longest,omitempty"`
	// Warnings lists the active warnings after this transaction.
	Warnings []Warning `json:"warnings,omitempty"`
	// Rivals are the pods of other nodes that contest an address, as namespace and name. The
	// controller ranks their claims by the state of their nodes.
	Rivals [][2]string `json:"-"`
	// RetryAfter is the time until the next empty transaction at the latest; 0 means that nothing
	// waits.
	RetryAfter time.Duration `json:"retryAfter,omitempty"`
	// ProbeAfter is the time until an empty transaction should ask HNS again about an object that
	// it rejected or that could not be read, remove an unused set, or end a lost pod. No other
	// work waits for these. 0 means never.
	ProbeAfter time.Duration `json:"probeAfter,omitempty"`
}

// Span is a range of generations, including both ends.
type Span struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// Has reports whether a generation is in the span.
func (s Span) Has(generation uint64) bool { return s.From <= generation && generation <= s.To }

// EndpointSeen is an endpoint with one of its addresses.
type EndpointSeen struct {
	ID   string `json:"id"`
	Addr string `json:"address"`
}

// Converged reports whether everything that can be programmed is in HNS.
func (r Report) Converged() bool { return r.Pending == 0 && r.RetryAfter == 0 }

// Next returns the time until the next empty transaction at the latest; 0 means that none is
// needed.
func (r Report) Next() time.Duration {
	if r.RetryAfter == 0 || r.ProbeAfter > 0 && r.ProbeAfter < r.RetryAfter {
		return r.ProbeAfter
	}
	return r.RetryAfter
}

// PodStart is the start of a pod that policies isolate.
type PodStart struct {
	Pod string `json:"pod"`
	Start
}

// Start says for how long a pod that was created while the agent ran was without its rules.
type Start struct {
	// Since is when the agent learned the pod's address. The endpoint is older than that by an
	// unknown time.
	Since time.Time `json:"since"`
	// Until is when HNS had the rules; zero if it does not have them yet.
	Until time.Time `json:"until,omitzero"`
	// Told is set if the address came from the CNI plugin. Nothing of the pod runs while the plugin
	// waits, so the pod was not open, unless the plugin gave up waiting.
	Told bool `json:"told,omitempty"`
}

// Open returns how long the pod was without its rules, 0 if it still is.
func (s Start) Open() time.Duration {
	if s.Until.IsZero() {
		return 0
	}
	return s.Until.Sub(s.Since)
}

// SpellingSeen says in which form HNS shows something that we wrote. It is learned when two reads
// after a successful write agree.
type SpellingSeen struct {
	Kind   string `json:"kind"`   // acl, set, or others: foreign ACLs that are sent back
	Object string `json:"object"` // Id of the rule, name of the set
	Sent   string `json:"sent"`
	Shown  string `json:"shown"`
	// SentRule and ShownRule are the canonical forms, if it is a rule.
	SentRule  *hns.ACL `json:"sentRule,omitempty"`
	ShownRule *hns.ACL `json:"shownRule,omitempty"`
}

// Repair is one object of ours that another program had changed in HNS and that is as desired
// again.
type Repair struct {
	Kind   string `json:"kind"`          // set, or acl: the rules of an endpoint
	Object string `json:"object"`        // name of the set, id of the endpoint
	Pod    string `json:"pod,omitempty"` // namespace/name of the endpoint's pod
	Found  string `json:"found"`         // the change, in a few words
}

// ObjectChange counts the objects of one kind that a transaction created, updated or deleted.
// Objects that did not change are not counted, except policies, which are not compared.
type ObjectChange struct {
	Kind      string `json:"kind"`      // pod, namespace, policy, clusterpolicy, node
	Operation string `json:"operation"` // create, update, delete
	Count     int    `json:"count"`
}

// Progress says what a transaction is doing. The zero Progress means that none runs.
type Progress struct {
	// Doing names the current step in a few words, on one line.
	Doing string `json:"doing"`
	// Since is the time of the last progress: when a step or a call of HNS began or ended.
	Since time.Time `json:"since"`
	// InHNS is set during a call of HNS. The client limits the time of the call.
	InHNS bool `json:"inHNS,omitempty"`
}

// Piece is a step of a transaction with the time that it took.
type Piece struct {
	Doing string        `json:"doing"`
	Took  time.Duration `json:"took"` // nanoseconds
}
