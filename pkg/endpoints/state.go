package endpoints

import (
	"fmt"
)

// endpointState is the state of an endpoint: of the rules that HNS has, and of their update. These
// are two machines, because different events move them (ADR 25): reads and writes move the first,
// changes of the desired rules and rejections the second. An endpoint that HNS enumerates and that was
// not read yet is an unreadEndpoint, and has no endpointState.
//
// A read makes the rules known, from any state, and the queue sets updatePending and updateSettled. Each
// other event has a method. One that is impossible in the present state is a bug and panics, because
// the next write would be planned from a wrong state.
type endpointState struct {
	rules  rulesState
	update updateState
	// lacked: the last enumeration that counts lacked the endpoint. Then any answer to a read but
	// success means that it is gone.
	lacked bool
	// check: the endpoint is to be read again, even if its rules are known. It is not a state of
	// the rules, because writes continue meanwhile, and their outcome may become
	// unknown.
	check bool
}

// String names the two states.
func (s endpointState) String() string { return fmt.Sprintf("%s, %s", s.rules, s.update) }

// impossible returns the text of a panic.
func (s endpointState) impossible(what string) string {
	return fmt.Sprintf("BUG: an endpoint that is %s %s", s, what)
}

// rulesState says how much is known about the rules that an endpoint has in HNS.
type rulesState uint8

const (
	rulesUnread   rulesState = iota // the endpoint was never read
	rulesKnown                      // the list, as of the last read or write
	rulesUnknown                    // a write had an unknown outcome: one of several lists
	rulesShielded                   // as rulesUnknown, and HNS took a block that was added unread
)

// String is the name of the state in the model and in docs/design.md.
func (s rulesState) String() string {
	return [...]string{"unread", "known", "unknown", "shielded"}[s]
}

// updateState says whether the rules of an endpoint wait for an update.
type updateState uint8

const (
	updateSettled   updateState = iota // nothing
	updatePending                      // it waits in the queue, or is being written
	updateBisecting                    // the same, and its policies are bisected
)

// String is the name of the state in the model and in docs/design.md.
func (s updateState) String() string {
	return [...]string{"settled", "pending", "bisecting"}[s]
}

// wrote records that HNS carried out a write that was planned from known rules.
func (s *endpointState) wrote() {
	if s.rules != rulesKnown {
		panic(s.impossible("was written"))
	}
}

// brokeOff records a write with an unknown outcome.
func (s *endpointState) brokeOff() {
	switch s.rules {
	case rulesUnread:
		panic(s.impossible("was written"))
	case rulesKnown:
		s.rules = rulesUnknown
	case rulesUnknown, rulesShielded:
	}
}

// shield records that the endpoint counts as closed, although it cannot be read.
func (s *endpointState) shield() {
	if s.rules != rulesUnknown {
		panic(s.impossible("was closed unread"))
	}
	s.rules = rulesShielded
}

// bisect records that HNS rejected a write, or is asked again about quarantined policies.
func (s *endpointState) bisect() {
	if s.update != updatePending {
		panic(s.impossible("is to be bisected"))
	}
	s.update = updateBisecting
}
