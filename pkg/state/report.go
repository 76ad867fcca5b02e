package state

import (
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
)

// Reason says what kept something from being programmed. Its values are words
// of the contract of `kubectl npm simulate`, but for ForeignWrites and NodesUnknown: there
// nobody else writes, and all nodes are known.
type Reason string

// The reasons of the dataplane; those of package policy go beside them.
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
	// ReasonSelectsNothing is of a policy that selects no pod of the cluster. It changes nothing, and
	// may be misspelt. No report has it, as everything that was asked for is done.
	ReasonSelectsNothing Reason = "SelectsNothing"
)

// Warning is one thing that is not as the user asked: left out, or not
// programmed yet. It is active as long as its cause lasts.
type Warning struct {
	Object  string `json:"object"` // namespace/name, or a set's name
	Kind    string `json:"kind"`   // NetworkPolicy, ClusterNetworkPolicy, Pod, RemotePod, Namespace, Endpoint, Set, Node
	Reason  Reason `json:"reason"`
	Message string `json:"message"` // one line: what, where, what to do
}

// Report says what one transaction reached. Dumps and callers share its lists, so nobody changes one in place.
type Report struct {
	// Generation counts the transactions of this process.
	Generation uint64        `json:"generation"`
	Started    time.Time     `json:"started"`
	Took       time.Duration `json:"took"` // nanoseconds
	// Busy is how much of that HNS took.
	Busy time.Duration `json:"busy,omitempty"`
	// Objects is the number of object changes that came in.
	Objects int `json:"objects"`
	// Changes counts those that changed something, sorted.
	Changes []ObjectChange `json:"changes,omitempty"`
	// NewEndpoints were seen for the first time, once per address.
	NewEndpoints []EndpointSeen `json:"newEndpoints,omitempty"`
	// Starts are of the pods that came to have their rules, sorted.
	Starts []PodStart `json:"starts,omitempty"`
	// Repairs are what somebody else had changed, sorted.
	Repairs []Repair `json:"repairs,omitempty"`
	// Spellings are what was learned of how HNS shows what was written.
	Spellings []SpellingSeen `json:"spellings,omitempty"`
	// Plan counts, in one line, the objects that HNS was asked to write, done or not;
	// empty for none.
	Plan string `json:"plan,omitempty"`
	// Calls counts the requests by kind and verb: "SetPolicy/Add", "ACL/Update".
	Calls map[string]int `json:"calls,omitempty"`
	// Errors is what HNS answered, in order.
	Errors []string `json:"errors,omitempty"`
	// Pending is the number of pods whose update is outstanding.
	Pending int `json:"pending"`
	// Unprogrammed is the latest generation of which something is not in HNS
	// yet; what came in later is. 0: everything is.
	Unprogrammed uint64 `json:"unprogrammed,omitempty"`
	// Waiting has every generation of which something may not be in HNS yet, in
	// order; what came in with another one is.
	Waiting []Span `json:"waiting,omitempty"`
	// Longest is the work that the transaction was at for longest without getting on,
	// calls of HNS apart, when that was a second or more.
	Longest *Piece `json:"longest,omitempty"`
	// Warnings are those that are active after this transaction.
	Warnings []Warning `json:"warnings,omitempty"`
	// Rivals are the pods of other nodes that contest an address, as namespace and name. The
	// controller ranks their claims by the state of their nodes.
	Rivals [][2]string `json:"-"`
	// RetryAfter is when an empty transaction should come at the latest;
	// 0 means that nothing waits.
	RetryAfter time.Duration `json:"retryAfter,omitempty"`
	// ProbeAfter is the time until an empty transaction should ask HNS again about an object that
	// it rejected or that could not be read, remove an unused set, or end a lost pod. No other
	// work waits for these. 0 means never.
	ProbeAfter time.Duration `json:"probeAfter,omitempty"`
}

// Span is some generations in a row.
type Span struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// Has reports whether a generation is one of them.
func (s Span) Has(generation uint64) bool { return s.From <= generation && generation <= s.To }

// EndpointSeen is an endpoint with one of its addresses.
type EndpointSeen struct {
	ID   string `json:"id"`
	Addr string `json:"address"`
}

// Converged reports whether everything that can be programmed is.
func (r Report) Converged() bool { return r.Pending == 0 && r.RetryAfter == 0 }

// Next is when an empty transaction should come at the latest; 0: not at all.
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

// Start says when a pod that came while the agent ran was without its rules.
type Start struct {
	// Since is when the agent knew of the pod's address. The endpoint is older than that
	// by what nobody tells.
	Since time.Time `json:"since"`
	// Until is when HNS had the rules; zero: it has them not yet.
	Until time.Time `json:"until,omitzero"`
	// Told: the CNI told of the address. It was waiting meanwhile, so nothing of the pod
	// ran, unless it waited no longer.
	Told bool `json:"told,omitempty"`
}

// Open returns how long the pod was without its rules, 0 if it still is.
func (s Start) Open() time.Duration {
	if s.Until.IsZero() {
		return 0
	}
	return s.Until.Sub(s.Since)
}

// SpellingSeen is how HNS shows something that we wrote in another way: two reads
// after a write of ours that succeeded agreed on it.
type SpellingSeen struct {
	Kind   string `json:"kind"`   // acl, set, or others: what goes back of theirs
	Object string `json:"object"` // Id of the rule, name of the set
	Sent   string `json:"sent"`
	Shown  string `json:"shown"`
	// Of a rule, both as they are compared.
	SentRule  *hns.ACL `json:"sentRule,omitempty"`
	ShownRule *hns.ACL `json:"shownRule,omitempty"`
}

// Repair is one object of ours that somebody else had changed in HNS, and that
// is as it should be again.
type Repair struct {
	Kind   string `json:"kind"`          // set, or acl: the rules of an endpoint
	Object string `json:"object"`        // name of the set, id of the endpoint
	Pod    string `json:"pod,omitempty"` // namespace/name of the endpoint's pod
	Found  string `json:"found"`         // what had been changed, in a few words
}

// ObjectChange counts the objects of one kind that a transaction created, updated or
// deleted. An object that comes again as it was is not counted, but a policy,
// which is not compared.
type ObjectChange struct {
	Kind      string `json:"kind"`      // pod, namespace, policy, clusterpolicy, node
	Operation string `json:"operation"` // create, update, delete
	Count     int    `json:"count"`
}

// Progress is where a transaction is. A zero one says that none runs.
type Progress struct {
	// Doing says in a few words on what it is, printable in one line.
	Doing string `json:"doing"`
	// Since is when it last got on: a piece of work, or a call of HNS, began or ended.
	Since time.Time `json:"since"`
	// InHNS: a call of HNS has not returned. How long it may take is the client's to
	// say.
	InHNS bool `json:"inHNS,omitempty"`
}

// Piece is work between two moments at which a transaction got on.
type Piece struct {
	Doing string        `json:"doing"`
	Took  time.Duration `json:"took"` // nanoseconds
}
