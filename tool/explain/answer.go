package explain

import (
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// Verdict says whether a connection is allowed.
type Verdict string

// The verdicts. Unknown is what a dump does not tell.
const (
	Allowed Verdict = "allowed"
	Blocked Verdict = "blocked"
	Unknown Verdict = "unknown"
)

// Answer answers a Question. Lists are in an order that follows from the dump
// alone.
type Answer struct {
	From        string          `json:"from"` // as asked
	To          string          `json:"to"`
	Source      string          `json:"source"` // addresses
	Destination string          `json:"destination"`
	Port        uint16          `json:"port"`
	Protocol    policy.Protocol `json:"protocol"`
	Node        string          `json:"node"`          // empty: each side has its own
	Time        time.Time       `json:"time,omitzero"` // of the dump, or of the older of two
	// Verdict is what HNS does now: Blocked if either end blocks, else Unknown if
	// one end is not known or not judged, or has an address that is contested.
	Verdict Verdict `json:"verdict"`
	Egress  Side    `json:"egress"`  // at From
	Ingress Side    `json:"ingress"` // at To
	// Warnings are those of the dump that are about the ends and their policies.
	Warnings []string `json:"warnings"`
}

// Side is the verdict of one end of a connection, with its reasons.
type Side struct {
	End string `json:"end"` // as asked
	Pod string `json:"pod"` // that owns the address; empty when none does
	// Node and Time are those of the dump, when the other side is of another one.
	Node string    `json:"node,omitempty"`
	Time time.Time `json:"time,omitzero"`
	// Judged: this node decides here. Otherwise Note says why not.
	Judged bool `json:"judged"`
	// Contested says that the question names a pod whose address belongs to another pod, or to an
	// unknown one. A verdict for the address then need not hold for the pod.
	Contested bool   `json:"contested,omitempty"`
	Note      string `json:"note,omitempty"` // one line about the end
	// Actual is the verdict by the rules that HNS has, as far as they are known, and Wanted the
	// verdict by the desired rules. Both are nil if the end is not judged.
	Actual *State `json:"actual,omitempty"`
	Wanted *State `json:"wanted,omitempty"`
	// Isolating are the policies that isolate the pod in this direction.
	Isolating []string `json:"isolating"`
	// Pending: what HNS has differs from what it should have, where that matters here.
	// Since says since when.
	Pending bool      `json:"pending"`
	Since   time.Time `json:"since,omitzero"`
	// Start is of a pod that came while its agent ran: when it was without its rules.
	Start *state.Start `json:"start,omitempty"`
	// Misses are the single changes that would have allowed what is to be blocked,
	// the likeliest first.
	Misses []Miss `json:"misses"`
}

// Differs reports whether HNS decides otherwise than it should.
func (s Side) Differs() bool { return s.Judged && s.Actual.Verdict != s.Wanted.Verdict }

// verdict is what the side says now.
func (s Side) verdict() Verdict {
	if !s.Judged || s.Contested && s.Actual.Verdict == Allowed {
		return Unknown
	}
	return s.Actual.Verdict
}

// State is what one end says by one state of HNS, the actual or the desired one.
type State struct {
	Verdict Verdict `json:"verdict"`
	Why     string  `json:"why"` // one sentence
	Decider
	// Rules decide: all that match with the best priority.
	Rules []Rule `json:"rules"`
	// Tried are, for a blocked connection, the allow rules of policies in its direction.
	// Those with the fewest conditions that fail come first.
	Tried []Rule `json:"tried"`
}

// Rule is one ACL compared with the connection.
type Rule struct {
	ACL    hns.ACL `json:"acl"`
	Policy string  `json:"policy"` // empty: no policy's
	// Path is where the policy has it, like spec.ingress[0]; an ACL may stand for
	// several rules. Empty: the policy has no such rule any more.
	Path  []string `json:"path"`
	Lines []string `json:"lines,omitempty"` // file:line of each, where manifests are at hand
	Words string   `json:"words"`           // what it says
	// Checks are its conditions.
	Checks []Check `json:"checks"`
}

// Check is one condition of a rule.
type Check struct {
	What string `json:"what"` // a set, a port, an address
	OK   bool   `json:"ok"`
	Why  string `json:"why"`
}

// Kind says what a Miss would change.
type Kind string

// The kinds of changes.
const (
	PodLabel       Kind = "podLabel"       // of the other end
	NamespaceLabel Kind = "namespaceLabel" // of the other end's namespace
	PortNumber     Kind = "port"           // that is connected to
	PortName       Kind = "portName"       // that a port of the destination would need
	SubjectLabel   Kind = "subjectLabel"   // of this end's pod, so that the policy selects it
	OtherNamespace Kind = "namespace"      // that the other end would have to be in
	Address        Kind = "address"        // of the other end, which is no pod
)

// Miss is a single change with which one rule would allow the connection at
// this end.
type Miss struct {
	Kind   Kind   `json:"kind"`
	Object string `json:"object,omitempty"` // the pod or namespace to change
	// Key and Value are the label that is needed. With Remove, no label may have that Key.
	Key    string `json:"key,omitempty"`
	Value  string `json:"value,omitempty"`
	Remove bool   `json:"remove,omitempty"`
	// Ports, of a Miss of kind PortNumber, are those that the rule allows.
	Ports  []policy.Port `json:"ports,omitempty"`
	Policy string        `json:"policy"`
	Path   string        `json:"path"`
	Line   string        `json:"line,omitempty"`
	Words  string        `json:"words"`

	far int // from what is there: 0 for a port or another value of a label, 2 for another policy
}
