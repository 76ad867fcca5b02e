package hnssim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
)

// Call is one request of the client.
type Call struct {
	Op       string // "SetPolicy/Add", "ACL/Update", "Endpoint/Get" and so on
	Target   string // the endpoint's ID, or the network's name
	Sets     []hns.SetPolicy
	ACLs     []hns.ACL            // of ACL/Add
	Policies []hns.EndpointPolicy // of ACL/Update: all policies
	Bytes    int                  // of the request's content, without escapes
}

// Hooks let a caller observe the requests of the client, replace their answers, and observe their
// changes. The zero value has no hooks.
type Hooks struct {
	// Call runs in place of every request, on the goroutine that makes it and without any lock. It returns the
	// error of the request. do carries out a request, which may differ from c in everything but its Op; check
	// returns the error of do, and changes nothing. Call must not change the slices of c.
	Call func(ctx context.Context, c Call, check, do func(Call) error) error
	// Show changes the result of a read. It runs without any lock.
	Show func(op string, out *hns.Result)
	// Wrote runs after each change, with the Sim locked. op is the Op of the request, or the name of the
	// Sim's method that made the change.
	Wrote func(op, target string, trace Tracer)
	// Early lets endpoints accept rules before they are attached.
	Early bool
}

// SetHooks replaces the hooks.
func (s *Sim) SetHooks(h Hooks) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks = h
}

// Counts returns the number of calls since the last ResetCalls, by Op.
func (s *Sim) Counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.counts)
}

// Written returns the size in bytes of the content of all writes since the last ResetCalls.
func (s *Sim) Written() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written
}

// ResetCalls resets Counts and Written.
func (s *Sim) ResetCalls() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.counts)
	s.written = 0
}

// call runs one request of the client. do runs with s.mu held; when dry, it
// checks the request and changes nothing.
func (s *Sim) call(ctx context.Context, c Call, do func(c Call, dry bool) error) error {
	if err := c.Broken(ctx); err != nil {
		return err
	}
	c.Bytes = c.size()
	s.mu.Lock()
	s.counts[c.Op]++
	s.written += c.Bytes
	hook := s.hooks.Call
	s.mu.Unlock()
	locked := func(dry bool) func(Call) error {
		return func(c Call) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			return do(c, dry)
		}
	}
	if hook == nil {
		return locked(false)(c)
	}
	return hook(ctx, c, locked(true), locked(false))
}

// shown returns the result of a read after the Show hook.
func (s *Sim) shown(op string, out hns.Result) hns.Result {
	s.mu.Lock()
	show := s.hooks.Show
	s.mu.Unlock()
	if out.Err != nil {
		return hns.Result{}
	}
	if show != nil {
		show(op, &out)
	}
	return out
}

// wrote runs the Wrote hook. s.mu must be held since before the change.
func (s *Sim) wrote(op, target string) {
	if s.hooks.Wrote != nil {
		s.hooks.Wrote(op, target, s.trace)
	}
}

// Broken returns the error of the call if ctx is done, else nil.
func (c Call) Broken(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return c.Fail(0, fmt.Errorf("%w: %w", hns.ErrUnavailable, context.Cause(ctx)))
}

// Fail returns err as the error of the call: an *hns.OpError that names the object of the call and has the code,
// 0 for none. If err is an *hns.OpError already, Fail returns it.
func (c Call) Fail(code uint32, err error) error {
	var op *hns.OpError
	if errors.As(err, &op) {
		return err
	}
	kind := hns.KindNetwork
	switch {
	case c.Op == hns.OpEndpointGet || c.Op == hns.OpACLAdd || c.Op == hns.OpACLUpdate:
		kind = hns.KindEndpoint
		if errors.Is(err, hns.ErrInvalid) && c.Op != hns.OpEndpointGet {
			kind = hns.KindACL
		}
	case len(c.Sets) > 0:
		kind = hns.KindSet
	}
	return c.Refusal(kind, code, err)
}

// Refusal returns the error of a call that HNS rejected because of an object of a kind. HNS returns only a
// code. It does not tell which one of several objects it rejects, so their ID is "one of N".
func (c Call) Refusal(kind string, code uint32, err error) *hns.OpError {
	var ids []string
	rules := c.ACLs
	if c.Policies != nil {
		rules, _ = hns.Endpoint{Policies: c.Policies}.Split()
	}
	for _, a := range rules {
		if kind == hns.KindACL {
			ids = append(ids, a.ID)
		} else {
			ids = append(ids, a.SetIDs()...)
		}
	}
	for _, p := range c.Sets {
		ids = append(ids, p.ID)
	}
	slices.Sort(ids)
	id := c.Target
	if c.Sets != nil || kind == hns.KindACL || kind == hns.KindSet {
		if ids = slices.Compact(ids); len(ids) == 1 {
			id = ids[0]
		} else if id = ""; len(ids) > 1 {
			id = fmt.Sprintf("one of %d", len(ids))
		}
	}
	return &hns.OpError{Op: c.Op, Kind: kind, ID: id, Code: code, Err: err}
}

// size returns the bytes of the request's content.
func (c Call) size() int {
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
