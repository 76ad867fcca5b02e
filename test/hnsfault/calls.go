package hnsfault

import (
	"context"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// Call is one request of the client. The ACLs of an ACL/Update are our rules among the policies, in
// canonical form. Callers must not change the slices.
type Call struct {
	hnssim.Call
	DLLCalls int   // calls of the DLLs that the real adapter makes for it
	Err      error // nil in a Before hook
}

// When says on which side of a call a hook runs.
type When uint8

// The two sides.
const (
	Before When = iota
	After
)

// OnCall sets a hook that runs before and after every call of the client, on the caller's goroutine and
// without any lock, so that it may use the Sim and the client. nil removes the hook.
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

// Calls returns the calls since the last ResetCalls, in the order in which they began.
func (s *Sim) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Call, len(s.calls))
	for i, c := range s.calls {
		out[i] = *c
	}
	return out
}

// ResetCalls clears the log of calls.
func (s *Sim) ResetCalls() {
	s.Sim.ResetCalls()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls, s.dll = nil, 0
}

// record counts the DLL calls of a call and adds it to the log.
func (s *Sim) record(c *Call) {
	if c.Policies != nil {
		c.ACLs, _ = hns.Endpoint{Policies: c.Policies}.Split()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.DLLCalls = s.dllCalls(c)
	s.dll += c.DLLCalls
	s.calls = append(s.calls, c)
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

// DLLCalls returns the number of DLL calls that the real adapter would have made since the last ResetCalls.
func (s *Sim) DLLCalls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dll
}

// dllCalls returns the number of DLL calls that the real adapter makes for a call without errors: open, one
// use and close. It omits open and close for a held handle. s.mu must be held.
func (s *Sim) dllCalls(c *Call) int {
	open, held := s.held[c.Target]
	switch {
	case c.Op == hns.OpNetworkGet:
		return 4 // first finds the network by its name
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
