// Package node has what the programs on one node share: the lock that allows only one agent, the
// pipe through which the CNI plugin asks the agent to make a pod's endpoint ready before the pod
// runs, and the installation of the plugin. Each question is a Claim, which gets an Answer. Both
// are one line of JSON, and each pair has a connection of its own. A Claimer makes the endpoint
// ready.
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

// pipeAccess allows access only to SYSTEM and administrators, and inherits no entries. It controls
// who may ask the agent, and who may create another instance of the pipe.
const pipeAccess = "D:P(A;;GA;;;SY)(A;;GA;;;BA)"

// The modes of the plugin. They decide about pods for which the agent does not answer.
const (
	ModeStrict = "strict" // a pod starts only when its policies are in place
	ModeWait   = "wait"   // a pod starts without its policies when the wait is over
	ModeOff    = "off"    // a pod starts at once; the agent is not asked
)

// DefaultWait is how long a claim waits, unless the configuration says otherwise. MaxWait is
// the longest wait.
const (
	DefaultWait = 10 * time.Second
	MaxWait     = 300 * time.Second
)

// Claim describes a pod that is about to run, as the plugin knows it.
type Claim struct {
	UID         string       `json:"uid,omitempty"` // "" if the runtime does not give it
	Namespace   string       `json:"namespace"`
	Name        string       `json:"name"`
	ContainerID string       `json:"containerID"` // of the sandbox
	Netns       string       `json:"netns,omitempty"`
	Addresses   []netip.Addr `json:"addresses,omitempty"`
	Endpoint    string       `json:"endpoint,omitempty"` // its name in the CNI's result, or ""; only a hint
	// Wait is how long the plugin waits for the endpoint. In JSON it is in nanoseconds.
	Wait time.Duration `json:"wait"`
	// Strict says that the pod runs only if the answer is that it is ready. Otherwise it runs when
	// Wait is over, whatever the answer is.
	Strict bool `json:"strict,omitempty"`
}

// Answer is the agent's answer to a Claim.
type Answer struct {
	Ready bool `json:"ready"`
	// Code and Reason say why the pod is not ready. Reason is one line, for people.
	Code   string `json:"code,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Codes of an Answer.
const (
	CodeLate    = "late"    // Wait is over
	CodeRefused = "refused" // the claim is invalid
	CodeFailed  = "failed"  // the agent failed; Reason has the error
)

// Claimer makes endpoints ready. Serve calls it from many goroutines.
type Claimer interface {
	// Claim returns nil when the endpoint of c has its desired rules. It waits for them until ctx
	// ends: context.Cause is ErrLate if Wait is over, and ErrHungUp if the plugin is gone. The
	// plugin gets any error as its answer, and does not ask again.
	Claim(ctx context.Context, c Claim) error
}

// Causes of the end of a claim's context.
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

// mostAddresses is the largest number of addresses of a pod. Dual stack has two.
const mostAddresses = 16

// The valid fields of a claim. Names must be valid in Kubernetes, so that no name can be mistaken
// for another one in a log or a key.
var (
	namespaces = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	names      = regexp.MustCompile(`^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$`)
	uids       = regexp.MustCompile(`^[-A-Za-z0-9]{0,64}$`)
	containers = regexp.MustCompile(`^[A-Za-z0-9][-_.A-Za-z0-9]{0,255}$`)
)

// mostBytes limits texts without a prescribed form.
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
