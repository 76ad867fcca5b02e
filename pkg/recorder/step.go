package recorder

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
)

// Header is the first line of a recording. Each further line is a Step.
type Header struct {
	Node  string    `json:"node"`
	Agent string    `json:"agent"` // version of the program
	Taken time.Time `json:"taken"`
	// Forgotten counts the steps that were dropped to stay within the limit.
	Forgotten uint64 `json:"forgotten,omitempty"`
}

// The kinds of steps.
const (
	Transaction = "transaction" // an ApplyDataplane
	// Observation is an Observe. It is not kept if it found nothing to do, or failed like the one before.
	Observation = "observation"
)

// Step is one call of the dataplane.
type Step struct {
	// Number counts the steps of the process from 1, in the order in which they
	// began. Steps that are not kept are counted too.
	Number uint64        `json:"number"`
	Kind   string        `json:"kind"`
	Began  time.Time     `json:"began"`
	Took   time.Duration `json:"took"` // nanoseconds, so far when it is running
	// Running is set if the step had not ended when it was read. The last of its calls may
	// be running then.
	Running bool `json:"running,omitempty"`
	// Events are the first objects of a Transaction.
	Events []Event `json:"events,omitempty"`
	// Look is what an Observation reads, with the first of its endpoints.
	Look  *dataplane.Look `json:"look,omitempty"`
	Calls []Call          `json:"calls,omitempty"` // of HNS, in order
	// MoreEvents, MoreCalls and MoreEndpoints count what was left out: the later
	// events, the earlier calls, the later endpoints of Look.
	MoreEvents    int `json:"moreEvents,omitempty"`
	MoreCalls     int `json:"moreCalls,omitempty"`
	MoreEndpoints int `json:"moreEndpoints,omitempty"`
	// Report is what the dataplane returned, without its lists that grow with the node.
	// Error is the text of its error, which is the context's.
	Report *state.Report `json:"report,omitempty"`
	Error  string        `json:"error,omitempty"`
}

// Event is one object of a transaction.
type Event struct {
	Kind      string `json:"kind"`
	Operation string `json:"operation"` // set or delete
	// Object is namespace/name, or name; empty for the addresses of this node.
	Object string `json:"object"`
}

// Call is one call of HNS.
type Call struct {
	Op       string        `json:"op"` // as package hns names it
	Endpoint string        `json:"endpoint,omitempty"`
	Began    time.Time     `json:"began"`
	Took     time.Duration `json:"took"` // nanoseconds, so far when it is running
	Running  bool          `json:"running,omitempty"`
	Error    *Error        `json:"error,omitempty"`
	// Count is the number of sets, rules or policies that were sent, or of sets, policies
	// or GUIDs that were read.
	Count int `json:"count,omitempty"`
}

// Error is the error of a call.
type Error struct {
	Code    uint32 `json:"code,omitempty"` // HRESULT
	Message string `json:"message"`        // with the text of its class
}

// The most that is kept of a step.
const (
	maxEvents    = 32
	maxEndpoints = 16 // of a look
	maxCalls     = 4096
	maxErrors    = 16 // of a report
	maxRepairs   = 16 // of a report
	maxMessage   = 1000
)

// eventsOf returns the first objects of a transaction, sorted, and how many more there are.
func eventsOf(tx *dataplane.Transaction) (first []Event, more int) {
	events := make([]Event, 0, tx.Len())
	add := func(kind, object string, deleted bool) {
		operation := "set"
		if deleted {
			operation = "delete"
		}
		events = append(events, Event{kind, operation, object})
	}
	for name, ns := range tx.Namespaces {
		add("namespace", name, ns == nil)
	}
	if _, said := tx.NodeAddrs(); said {
		add("node", "", false)
	}
	for key, p := range tx.Pods {
		add("pod", key.String(), p == nil)
	}
	for key, np := range tx.Policies {
		add("policy", key.String(), np == nil)
	}
	for name, cnp := range tx.ClusterPolicies {
		add("clusterPolicy", name, cnp == nil)
	}
	for name, node := range tx.Nodes {
		add("clusterNode", name, node == nil)
	}
	slices.SortFunc(events, func(a, b Event) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Object, b.Object)) })
	return slices.Clone(events[:min(len(events), maxEvents)]), max(0, len(events)-maxEvents)
}

// lookStep returns the step of an observation.
func lookStep(look dataplane.Look) Step {
	more := max(0, len(look.Endpoints)-maxEndpoints)
	look.Endpoints = slices.Clone(look.Endpoints[:len(look.Endpoints)-more])
	return Step{Kind: Observation, Look: &look, MoreEndpoints: more}
}

// briefReport returns a report without its lists that grow with the node.
func briefReport(r state.Report) *state.Report {
	r.Warnings, r.NewEndpoints, r.Starts = nil, nil, nil
	r.Errors = r.Errors[:min(len(r.Errors), maxErrors)]
	r.Repairs = r.Repairs[:min(len(r.Repairs), maxRepairs)]
	return &r
}

// newError returns what is kept of an error, nil for none.
func newError(err error) *Error {
	if err == nil {
		return nil
	}
	return &Error{Code: hns.CodeOf(err), Message: fmt.Sprintf("%.*s", maxMessage, err.Error())}
}
