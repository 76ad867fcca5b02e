// Package node is what the programs on one node agree on: the lock that keeps a second agent off, the pipe over
// which the CNI plugin asks the agent to have the endpoint of a pod ready before the pod runs, and the installation
// of the plugin. A question is a Claim and its Answer, each one line of JSON, on a connection of their own. A
// Claimer makes the endpoint ready.
package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"time"
	"unicode"
)

// DefaultPipe is the pipe of agents, unless the configuration names another one.
const DefaultPipe = `\\.\pipe\winnpm-cni`

// pipeAccess lets only SYSTEM and administrators in, and inherits no entries. It says who may ask the agent, and
// who may add an instance of the pipe.
const pipeAccess = "D:P(A;;GA;;;SY)(A;;GA;;;BA)"

// The modes of the plugin: what it does with a pod for which it gets no answer.
const (
	ModeStrict = "strict" // it does not start until its policies are in place
	ModeWait   = "wait"   // it starts without them when the wait is over
	ModeOff    = "off"    // it starts without a question to the agent
)

// DefaultWait is how long a claim waits, unless the configuration says otherwise. MaxWait is
// the longest wait.
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

// Errors of Ask.
var (
	ErrNoAgent = errors.New("no agent answers")
	ErrHung    = errors.New("the agent took the claim and did not answer in time")
	ErrRefused = errors.New("the agent says no")
)

// mostAddresses is the limit of addresses of a pod. Dual stack has two.
const mostAddresses = 16

// What a caller may write. Names are as Kubernetes has them, so that none can pass for
// another one in a log or a key.
var (
	namespaces = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	names      = regexp.MustCompile(`^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$`)
	uids       = regexp.MustCompile(`^[-A-Za-z0-9]{0,64}$`)
	containers = regexp.MustCompile(`^[A-Za-z0-9][-_.A-Za-z0-9]{0,255}$`)
)

// mostBytes is the limit of texts without a prescribed form.
const mostBytes = 512

// check returns an error for an invalid claim. The error does not repeat texts that are too long.
func (c Claim) check() error {
	for _, field := range []struct {
		what, text string
		form       *regexp.Regexp
	}{
		{"namespace", c.Namespace, namespaces},
		{"name", c.Name, names},
		{"uid", c.UID, uids},
		{"containerID", c.ContainerID, containers},
	} {
		switch {
		case field.form.MatchString(field.text):
		case len(field.text) > mostBytes:
			return fmt.Errorf("%s of %d bytes", field.what, len(field.text))
		default:
			return fmt.Errorf("%s %q is none of a pod", field.what, field.text)
		}
	}
	if !short(c.Netns) || !short(c.Endpoint) {
		return fmt.Errorf("netns or endpoint is no line of at most %d characters", mostBytes)
	}
	if len(c.Addresses) > mostAddresses {
		return fmt.Errorf("%d addresses, at most %d", len(c.Addresses), mostAddresses)
	}
	for _, a := range c.Addresses {
		if !a.IsGlobalUnicast() && !a.IsLinkLocalUnicast() || a.Zone() != "" {
			return errors.New("an address that no pod has")
		}
	}
	if c.Wait <= 0 || c.Wait > MaxWait {
		return fmt.Errorf("wait of %s, more than 0 and at most %s", c.Wait, MaxWait)
	}
	return nil
}

// short reports whether text has at most mostBytes, all of them printable.
func short(text string) bool {
	if len(text) > mostBytes {
		return false
	}
	for _, r := range text {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return false
		}
	}
	return true
}
