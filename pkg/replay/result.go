package replay

import (
	"time"

	"github.com/winnpm/winnpm/pkg/recorder"
)

// Result is what a replay found.
type Result struct {
	Node  string    `json:"node"`
	Agent string    `json:"agent"` // version of the program that was recorded
	Taken time.Time `json:"taken"`
	Began time.Time `json:"began"` // of the first step; zero without steps
	// Start is false when the recording begins with a dump.
	Start bool `json:"start"`
	// Older: an older build recorded it, which read HNS in another way. Nothing is
	// said of what this build would do.
	Older bool   `json:"older,omitempty"`
	Steps []Step `json:"steps"`
	// Final are those of the state after the last step against a dump.
	Final []Finding `json:"final"`
	// Differences counts those of all steps and of the end; First is the step of
	// the first one, 0 when there is none or it is of the end.
	Differences int    `json:"differences"`
	First       uint64 `json:"first,omitempty"`
	// Stopped says why not all steps were played.
	Stopped string `json:"stopped,omitempty"`
}

// Step is one step of the recording, played.
type Step struct {
	Number uint64        `json:"number"`
	Kind   string        `json:"kind"`   // as package recorder names them
	Offset time.Duration `json:"offset"` // since Result.Began, nanoseconds
	Took   time.Duration `json:"took"`
	Came   string        `json:"came"` // what came in, in words
	Calls  []Call        `json:"calls"`
	// DLLCalls is how many calls of the DLLs of HNS they were; 0 in recordings that
	// are older.
	DLLCalls int `json:"dllCalls,omitempty"`
	// Others counts what others changed of their own: endpoints that came or went,
	// and their policies.
	Others   int       `json:"others,omitempty"`
	Findings []Finding `json:"findings"`
	// Detail is of the one step that was asked for.
	Detail *Detail `json:"detail,omitempty"`
}

// Call is one recorded call in short.
type Call struct {
	Op       string        `json:"op"`
	Endpoint string        `json:"endpoint,omitempty"`
	Count    int           `json:"count"` // of sets, rules, endpoints or GUIDs
	DLLCalls int           `json:"dllCalls,omitempty"`
	Took     time.Duration `json:"took"`
	Error    string        `json:"error,omitempty"`
}

// Kind says what a Finding is about.
type Kind string

// The kinds of findings. All but a Note are differences.
const (
	// State: HNS has something else than our writes imply.
	State Kind = "state"
	// Answer: HNS answered otherwise than the simulator would.
	Answer Kind = "answer"
	// Build: this build does something else than was recorded.
	Build Kind = "build"
	// Outcome: the step or the recording ended in another state.
	Outcome Kind = "outcome"
	// Note: worth knowing, and no difference.
	Note Kind = "note"
)

// Finding is one thing that a step showed.
type Finding struct {
	Kind Kind `json:"kind"`
	// Call is the place of the recorded call in its step, from 1; 0 for none.
	Call   int    `json:"call,omitempty"`
	Op     string `json:"op,omitempty"`
	Object string `json:"object,omitempty"` // set's name, or endpoint's id
	Text   string `json:"text"`             // one line
	// Lines are particulars, one line each; Legend says what their signs mean.
	Lines  []string `json:"lines,omitempty"`
	Legend string   `json:"legend,omitempty"`
}

// Detail is everything about one step.
type Detail struct {
	Recorded recorder.Step `json:"recorded"`
	// What HNS has after it, as far as the step touched it.
	Sets      []SetState      `json:"sets"`
	Endpoints []EndpointState `json:"endpoints"`
}

// SetState is a set in HNS; without Values it is not there.
type SetState struct {
	ID     string   `json:"id"`
	Name   string   `json:"name"`
	Values []string `json:"values"`
}

// EndpointState is an endpoint in HNS with our rules, a line each; Others counts
// the policies of others.
type EndpointState struct {
	ID     string   `json:"id"`
	There  bool     `json:"there"`
	Rules  []string `json:"rules"`
	Others int      `json:"others"`
}

// differences counts the findings that are no notes.
func differences(findings []Finding) int {
	n := 0
	for _, f := range findings {
		if f.Kind != Note {
			n++
		}
	}
	return n
}
