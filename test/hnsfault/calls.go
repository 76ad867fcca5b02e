package hnsfault

import (
	"context"
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// Call is one request of the client. The ACLs of an ACL/Update are ours among the
// policies, canonical.
type Call struct {
	hnssim.Call
	Seq      int   // from 1, also across ResetCalls
	DLLCalls int   // calls of the DLLs that the real adapter makes for it
	Err      error // nil in a Before hook
}

// When says on which side of a call a hook runs.
type When uint8

// The sides.
const (
	Before When = iota
	After
)

// OnCall has hook run on both sides of every call of the client, on the
// caller's goroutine and without any lock, so that it may use the Sim or
// whoever made the call. nil takes the hook away.
func (s *Sim) OnCall(hook func(c Call, when When)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = hook
}

// runHook runs the hook, if there is one, on a copy of the call.
func (s *Sim) runHook(c *Call, when When) {
	s.mu.Lock()
	hook := s.hook
	if hook == nil {
		s.mu.Unlock()
		return
	}
	shown := c.clone()
	s.mu.Unlock()
	hook(shown, when)
}

// Calls returns the calls since the last ResetCalls, in the order in which they
// began; of very many, the last ones.
func (s *Sim) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Call, len(s.log.calls))
	for i, c := range s.log.calls {
		out[i] = c.clone()
	}
	return out
}

// ResetCalls forgets the calls so far.
func (s *Sim) ResetCalls() {
	s.Sim.ResetCalls()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = callLog{seq: s.log.seq}
}

// clone returns a copy that shares no slice, with everything filled in.
func (c *Call) clone() Call {
	out := *c
	if c.Sets != nil {
		out.Sets = cloneSets(c.Sets)
	}
	out.ACLs = slices.Clone(c.ACLs)
	if c.Policies != nil {
		out.Policies = clonePolicies(c.Policies)
		out.ACLs, _ = hns.Endpoint{Policies: out.Policies}.Split()
	}
	return out
}

// callLog remembers calls.
type callLog struct {
	seq   int
	calls []*Call
	bytes int // of calls
	dll   int // calls of the DLLs
}

// What the log keeps at most. A simulated node may run for days.
const (
	maxLogBytes = 64 << 20
	maxLogCalls = 100_000
)

// add numbers a call and remembers it.
func (l *callLog) add(c *Call) {
	l.seq++
	c.Seq = l.seq
	l.dll += c.DLLCalls
	l.calls = append(l.calls, c)
	l.bytes += c.Bytes
	drop := 0
	for len(l.calls)-drop > maxLogCalls || l.bytes > maxLogBytes {
		l.bytes -= l.calls[drop].Bytes
		drop++
	}
	l.calls = l.calls[drop:]
}

// Hold implements hns.Client.
func (s *Sim) Hold(_ context.Context, endpoint string) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, held := s.held[endpoint]; held {
		panic("BUG: endpoint " + endpoint + " is held twice")
	}
	s.held[endpoint] = false
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.held[endpoint] {
			s.log.dll++ // close
		}
		delete(s.held, endpoint)
	}
}

// DLLCalls returns how many calls of the DLLs the calls since the last ResetCalls
// would have been.
func (s *Sim) DLLCalls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.dll
}

// price returns the number of DLL calls that a call is, as the real adapter makes
// them when all goes well: open, one use and close, without those of a handle that
// is held. s.mu must be held.
func (s *Sim) price(c *Call) int {
	switch c.Op {
	case hns.OpNetworkGet:
		return 4 // the network is looked for by its name first
	case hns.OpEndpointIDs:
		return 2 // states 2 and 3
	case hns.OpEndpointNew:
		return 1 // state 1
	case hns.OpEndpointGet, hns.OpACLAdd, hns.OpACLUpdate:
		open, held := s.held[c.Target]
		switch {
		case open:
			return 1
		case held:
			s.held[c.Target] = true
			return 2
		}
	}
	return 3
}
