package hnssim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim/dllcalls"
)

// Call is one request of the client.
type Call struct {
	Seq      int    // from 1, also across ResetCalls
	Op       string // "SetPolicy/Add", "ACL/Update", "Endpoint/Get" and so on
	Target   string // the endpoint's ID, or the network's name
	Sets     []hns.SetPolicy
	ACLs     []hns.ACL            // ACL/Add: all; ACL/Update: ours, canonical
	Policies []hns.EndpointPolicy // ACL/Update: all
	Bytes    int                  // of the request's content, without escapes
	DLLCalls int                  // calls of the DLLs that the real adapter makes for it
	Err      error                // nil in a Before hook
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

// Calls returns the calls since the last ResetCalls, in the order in which they
// began; of very many, the last ones, and with Options.CountOnly none.
func (s *Sim) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Call, len(s.log.calls))
	for i, c := range s.log.calls {
		out[i] = c.clone()
	}
	return out
}

// Counts returns the number of calls since the last ResetCalls, by Op.
func (s *Sim) Counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.log.counts)
}

// Written returns the bytes of the content of all requests since the last ResetCalls: reads
// have none.
func (s *Sim) Written() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.written
}

// ResetCalls forgets the calls so far.
func (s *Sim) ResetCalls() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = callLog{countOnly: s.log.countOnly, seq: s.log.seq, counts: map[string]int{}}
}

// callLog remembers calls.
type callLog struct {
	countOnly bool
	seq       int
	calls     []*Call
	bytes     int // of calls
	written   int // bytes of the content of all requests
	counts    map[string]int
	dll       int // calls of the DLLs
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
	l.counts[c.Op]++
	l.dll += c.DLLCalls
	l.written += c.Bytes
	if l.countOnly {
		return
	}
	l.calls = append(l.calls, c)
	l.bytes += c.Bytes
	drop := 0
	for len(l.calls)-drop > maxLogCalls || l.bytes > maxLogBytes {
		l.bytes -= l.calls[drop].Bytes
		drop++
	}
	l.calls = l.calls[drop:]
}

// call runs one request of the client. do runs with s.mu held; with half it
// does the first half of the request only.
func (s *Sim) call(ctx context.Context, c *Call, do func(half bool) error) error {
	if err := broken(ctx, c); err != nil {
		return err
	}
	c.Bytes = c.size()
	s.mu.Lock()
	c.DLLCalls = s.price(c)
	s.log.add(c)
	s.mu.Unlock()
	dllcalls.Count(ctx, c.DLLCalls)
	s.runHook(c, Before)
	err := s.perform(ctx, c, do)
	s.mu.Lock()
	c.Err = err
	s.mu.Unlock()
	s.runHook(c, After)
	return err
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

// broken returns the error of a call whose caller does not wait any more.
func broken(ctx context.Context, c *Call) error {
	if ctx.Err() == nil {
		return nil
	}
	return c.fail(fmt.Errorf("%w: %w", hns.ErrUnavailable, context.Cause(ctx)))
}

// fail returns the error of a call that did not fail by a refusal.
func (c *Call) fail(err error) error {
	var op *hns.OpError
	if errors.As(err, &op) {
		return err
	}
	kind, id := hns.KindNetwork, c.Target
	switch {
	case c.Op == hns.OpEndpointGet || c.Op == hns.OpACLAdd || c.Op == hns.OpACLUpdate:
		kind = hns.KindEndpoint
		if errors.Is(err, hns.ErrInvalid) && c.Op != hns.OpEndpointGet {
			kind = hns.KindACL
		}
	case len(c.Sets) > 0:
		kind, id = hns.KindSet, c.Sets[0].ID
		if len(c.Sets) > 1 {
			id = fmt.Sprintf("one of %d", len(c.Sets))
		}
	}
	return &hns.OpError{Op: c.Op, Kind: kind, ID: id, Err: err}
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

// size returns the bytes of the request's content.
func (c *Call) size() int {
	n := 0
	for _, p := range c.Sets {
		n += len(`{"Type":"SetPolicy","Settings":{"Id":"","Name":"","PolicyType":"","Values":""}},`)
		n += len(p.ID) + len(p.Name) + len(p.Type)
		for _, v := range p.Values {
			n += len(v) + 1
		}
	}
	for _, p := range c.Policies {
		n += len(`{"Type":"","Settings":},`) + len(p.Type) + len(p.Settings)
	}
	if len(c.Policies) == 0 {
		for _, a := range c.ACLs {
			n += len(`{"Type":"ACL","Settings":},`) + len(hns.NewACLPolicy(a).Settings)
		}
	}
	return n
}
