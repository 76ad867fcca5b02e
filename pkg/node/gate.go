// Package node is what the programs on one node agree on: the lock that keeps a second agent off, the pipe over
// which the CNI plugin asks the agent to have the endpoint of a pod ready before the pod runs, and the installation
// of the plugin. A question is a Claim and its Answer, each one line of JSON, on a connection of their own. A
// Claimer makes the endpoint ready.
package node

import (
	"context"
	"errors"
	"net/netip"
	"time"
)

// DefaultPipe is where agents listen when nobody says otherwise.
const DefaultPipe = `\\.\pipe\winnpm-cni`

// What the plugin does with a pod that has no answer.
const (
	ModeStrict = "strict" // it does not start until its policies are in place
	ModeWait   = "wait"   // it starts without them when the wait is over
	ModeOff    = "off"    // it starts at once, and nobody is asked
)

// DefaultWait is how long a claim waits when nobody says otherwise, and MaxWait the longest
// that it may.
const (
	DefaultWait = 10 * time.Second
	MaxWait     = 300 * time.Second
)

// Claim is what the plugin knows of a pod that is about to run.
type Claim struct {
	UID         string       `json:"uid,omitempty"` // "" from runtimes that do not tell
	Namespace   string       `json:"namespace"`
	Name        string       `json:"name"`
	ContainerID string       `json:"containerID"` // of the sandbox
	Netns       string       `json:"netns,omitempty"`
	Addresses   []netip.Addr `json:"addresses,omitempty"`
	Endpoint    string       `json:"endpoint,omitempty"` // as the CNI calls it, "" when it does not; a hint
	// Wait is how long the plugin waits for the endpoint. In JSON it is in nanoseconds.
	Wait time.Duration `json:"wait"`
	// Strict says that the pod does not run without a good answer. Otherwise it runs
	// when Wait is over, whatever the answer is.
	Strict bool `json:"strict,omitempty"`
}

// Answer is what the agent says of a Claim.
type Answer struct {
	Ready bool `json:"ready"`
	// Code and Reason say why it is not, the second for people, in one line.
	Code   string `json:"code,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Codes of an Answer.
const (
	CodeLate    = "late"    // Wait is over
	CodeRefused = "refused" // the claim is not one
	CodeFailed  = "failed"  // the agent has an error to tell
)

// Claimer makes endpoints ready. Serve calls it from many goroutines.
type Claimer interface {
	// Claim returns nil when the endpoint of c has the rules that it should have. It
	// waits for that until ctx ends: context.Cause is ErrLate when Wait is over and
	// ErrHungUp when the plugin is gone. Any error is told to the plugin, which does
	// not ask again.
	Claim(ctx context.Context, c Claim) error
}

// Causes why the context of a claim ends.
var (
	ErrLate   = errors.New("the pod waits no longer")
	ErrHungUp = errors.New("the plugin waits no longer")
)

// What Ask may end with.
var (
	ErrNoAgent = errors.New("no agent answers")
	ErrHung    = errors.New("the agent took the claim and did not answer in time")
	ErrRefused = errors.New("the agent says no")
)
