package endpoints

import (
	"fmt"
)

// endpointState is where an endpoint is between HNS and what is desired. It is the
// product of two machines, because something else moves each of them (ADR 25): reads
// and writes; what is desired and rejected. What HNS enumerates and nobody
// has read is an unreadEndpoint, and has no endpointState before the first read.
//
// A method is one thing that happened. One that cannot happen in the present state is a
// fault of ours and panics, as the next write would be planned from what is not so.
type endpointState struct {
	rules  rulesState
	update updateState
	// lacked: the last enumeration that counts lacked the endpoint. Then any answer to a read but
	// success means that it is gone.
	lacked bool
	// check: it is to be read again, whatever is known of its rules. It is no state of
	// them, as it says what somebody asks for and not what is known: a write goes on
	// meanwhile, and its outcome may become unknown.
	check bool
}

// String names the two states.
func (s endpointState) String() string { return fmt.Sprintf("%s, %s", s.rules, s.update) }

// impossible is what a method panics with.
func (s endpointState) impossible(what string) string {
	return fmt.Sprintf("BUG: an endpoint that is %s %s", s, what)
}

// rulesState says what is known of the rules that an endpoint has in HNS.
type rulesState uint8

const (
	rulesUnread   rulesState = iota // nobody has read the endpoint
	rulesKnown                      // the list, as of the last read or write
	rulesUnknown                    // a write broke off: one of several lists
	rulesShielded                   // as rulesUnknown, and HNS took a block that was added unread
)

// String is the name of the state in the model and in docs/design.md.
func (s rulesState) String() string {
	return [...]string{"unread", "known", "unknown", "shielded"}[s]
}

// updateState says what is to be done with the rules of an endpoint.
type updateState uint8

const (
	updateSettled   updateState = iota // nothing
	updatePending                      // it waits in the queue, or is being written
	updateBisecting                    // the same, and its policies are bisected, as HNS rejected a write
)

// String is the name of the state in the model and in docs/design.md.
func (s updateState) String() string {
	return [...]string{"settled", "pending", "bisecting"}[s]
}

// read takes that the endpoint was read.
func (s *endpointState) read() { s.rules = rulesKnown }

// wrote takes that HNS did a write, which was planned from what is known.
func (s *endpointState) wrote() {
	if s.rules != rulesKnown {
		panic(s.impossible("was written"))
	}
}

// brokeOff takes that a write may have been done, or may not.
func (s *endpointState) brokeOff() {
	switch s.rules {
	case rulesUnread:
		panic(s.impossible("was written"))
	case rulesKnown:
		s.rules = rulesUnknown
	case rulesUnknown, rulesShielded:
	}
}

// shield takes that the endpoint counts as closed, though it cannot be read.
func (s *endpointState) shield() {
	if s.rules != rulesUnknown {
		panic(s.impossible("was closed unread"))
	}
	s.rules = rulesShielded
}

// join takes that the endpoint has a turn in the queue.
func (s *endpointState) join() { s.update = max(s.update, updatePending) }

// settle takes that nothing is to be done any more.
func (s *endpointState) settle() { s.update = updateSettled }

// replan takes that the next write is of all rules that are desired.
func (s *endpointState) replan() { s.update = min(s.update, updatePending) }

// bisect takes that HNS rejected a write, or is asked again about policies.
func (s *endpointState) bisect() {
	if s.update != updatePending {
		panic(s.impossible("is to be bisected"))
	}
	s.update = updateBisecting
}
