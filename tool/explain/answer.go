package explain

import (
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// Verdict says whether a connection is allowed.
type Verdict string

// The verdicts. Unknown means that the dump does not contain enough to decide.
const (
	Allowed Verdict = "allowed"
	Blocked Verdict = "blocked"
	Unknown Verdict = "unknown"
)

// Answer answers a Question. Equal dumps give equal answers, including the order of lists.
type Answer struct {
	From        string          `json:"from"` // as asked
	To          string          `json:"to"`
	Source      string          `json:"source"` // addresses
	Destination string          `json:"destination"`
	Port        uint16          `json:"port"`
	Protocol    policy.Protocol `json:"protocol"`
	Node        string          `json:"node"`          // empty: each side names its own
	Time        time.Time       `json:"time,omitzero"` // of the dump; of two dumps, the older
	// Verdict is what HNS does now: Blocked if either end blocks, else Unknown if an end is unknown, is not
	// judged, or has a contested address.
	Verdict Verdict `json:"verdict"`
	Egress  Side    `json:"egress"`  // at From
	Ingress Side    `json:"ingress"` // at To
	// Warnings are the dump's warnings about the ends and their policies.
	Warnings []string `json:"warnings"`
}

// Side is the verdict of one end of a connection, with its reasons.
type Side struct {
	End string `json:"end"` // as asked
	Pod string `json:"pod"` // that owns the address; empty when none does
	// Node and Time are copied from the side's dump. They are set when the two sides come from two dumps.
	Node string    `json:"node,omitempty"`
	Time time.Time `json:"time,omitzero"`
	// Judged reports whether this node filters at this end. If not, Note says why.
	Judged bool `json:"judged"`
	// Contested reports that the question names a pod whose address belongs to another pod or to an unknown
	// one. The verdict for the address may then be wrong for the pod.
	Contested bool   `json:"contested,omitempty"`
	Note      string `json:"note,omitempty"` // one line about the end
	// Actual is the verdict of the rules in HNS, as far as they are known. Wanted is the verdict of the
	// desired rules. Both are nil if the end is not judged.
	Actual *State `json:"actual,omitempty"`
	Wanted *State `json:"wanted,omitempty"`
	// Isolating lists the policies that isolate the pod in this direction.
	Isolating []string `json:"isolating"`
	// Pending reports that HNS differs from the desired state in rules or sets of this side, and Since
	// gives the start of that.
	Pending bool      `json:"pending"`
	Since   time.Time `json:"since,omitzero"`
	// Start describes how long the pod ran without its rules. It is set if the agent was running when the
	// pod started.
	Start *state.Start `json:"start,omitempty"`
	// Misses are the single changes that would allow a connection whose desired verdict is Blocked, the
	// likeliest first.
	Misses []Miss `json:"misses"`
}

// Differs reports whether the actual verdict differs from the desired one.
func (s Side) Differs() bool { return s.Judged && s.Actual.Verdict != s.Wanted.Verdict }

// verdict returns the side's contribution to Answer.Verdict.
func (s Side) verdict() Verdict {
	if !s.Judged || s.Contested && s.Actual.Verdict == Allowed {
		return Unknown
	}
	return s.Actual.Verdict
}

// State is the verdict at one end for one state of HNS, the actual or the desired one.
type State struct {
	Verdict Verdict `json:"verdict"`
	Why     string  `json:"why"` // one sentence
	Decider
	// Rules are the rules that decide: all matching rules of the best priority.
	Rules []Rule `json:"rules"`
	// Tried are, for a blocked connection, the policies' allow rules in its direction. Rules with the
	// fewest failing conditions come first.
	Tried []Rule `json:"tried"`
}

// Rule is one ACL compared with the connection.
type Rule struct {
	ACL    hns.ACL `json:"acl"`
	Policy string  `json:"policy"` // empty: the rule is not from a policy
	// Path gives the places of the rule in the policy, like spec.ingress[0]. One ACL may implement several
	// rules. It is empty if the policy no longer has such a rule.
	Path  []string `json:"path"`
	Lines []string `json:"lines,omitempty"` // file:line of each, if manifests were given
	Words string   `json:"words"`           // the rule in words
	// Checks are its conditions.
	Checks []Check `json:"checks"`
}

// Check is one condition of a rule.
type Check struct {
	What string `json:"what"` // a set, a port, an address
	OK   bool   `json:"ok"`
	Why  string `json:"why"`
}

// Kind is what a Miss would change.
type Kind string

// The kinds of Misses.
const (
	PodLabel       Kind = "podLabel"       // a label of the other end's pod
	NamespaceLabel Kind = "namespaceLabel" // a label of the other end's namespace
	PortNumber     Kind = "port"           // the destination port of the connection
	PortName       Kind = "portName"       // the name of a port of the destination
	SubjectLabel   Kind = "subjectLabel"   // a label of this end's pod, so that the policy selects it
	OtherNamespace Kind = "namespace"      // the namespace of the other end
	Address        Kind = "address"        // the address of the other end, which is not a pod
)

// Miss is a single change after which one rule would allow the connection at this end.
type Miss struct {
	Kind   Kind   `json:"kind"`
	Object string `json:"object,omitempty"` // the pod or namespace to change
	// Key and Value are the label to set. If Remove is set, the label Key is to be removed instead.
	Key    string `json:"key,omitempty"`
	Value  string `json:"value,omitempty"`
	Remove bool   `json:"remove,omitempty"`
	// Ports are, for Kind PortNumber, the ports that the rule allows.
	Ports  []policy.Port `json:"ports,omitempty"`
	Policy string        `json:"policy"`
	Path   string        `json:"path"`
	Line   string        `json:"line,omitempty"`
	Words  string        `json:"words"`

	distance int // 0: change a port or a label's value; 1: add or remove something; 2: have another policy select the pod
}
