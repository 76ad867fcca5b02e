package hnsfault

import (
	"context"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// Call is one request of the client. The ACLs of an ACL/Update are ours among the
// policies, canonical. Nobody changes what its slices have.
type Call struct {
	hnssim.Call
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

// runHook runs the hook, if there is one.
func (s *Sim) runHook(c *Call, when When) {
	s.mu.Lock()
	hook, shown := s.hook, *c
	s.mu.Unlock()
	if hook != nil {
		hook(shown, when)
	}
}

// Calls returns the calls since the last ResetCalls, in the order in which they
// began; of very many, the last ones.
func (s *Sim) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Call, len(s.calls))
	for i, c := range s.calls {
		out[i] = *c
	}
	return out
}

// ResetCalls forgets the calls so far.
func (s *Sim) ResetCalls() {
	s.Sim.ResetCalls()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls, s.dll = nil, 0
}

// maxLogged is how many calls are remembered. A simulated node may run for days.
const maxLogged = 1 << 14

// remember prices a call and adds it to the log.
func (s *Sim) remember(c *Call) {
	if c.Policies != nil {
		c.ACLs, _ = hns.Endpoint{Policies: c.Policies}.Split()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.DLLCalls = s.price(c)
	s.dll += c.DLLCalls
	if s.calls = append(s.calls, c); len(s.calls) > maxLogged {
		s.calls = s.calls[1:]
	}
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
			s.dll++ // close
		}
		delete(s.held, endpoint)
	}
}

// DLLCalls returns how many calls of the DLLs the calls since the last ResetCalls
// would have been.
func (s *Sim) DLLCalls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dll
}

// price returns the number of DLL calls that a call is, as the real adapter makes
// them when all goes well: open, one use and close, without those of a handle that
// is held. s.mu must be held.
func (s *Sim) price(c *Call) int {
	open, held := s.held[c.Target]
	switch {
	case c.Op == hns.OpNetworkGet:
		return 4 // the network is looked for by its name first
	case c.Op == hns.OpEndpointIDs:
		return 2 // states 2 and 3
	case c.Op == hns.OpEndpointNew || open:
		return 1 // state 1, or the use alone
	case held:
		s.held[c.Target] = true
		return 2
	}
	return 3
}
