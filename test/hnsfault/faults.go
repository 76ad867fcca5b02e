package hnsfault

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// Mode is the way in which a call fails.
type Mode uint8

// The modes.
const (
	Refuse    Mode = iota // nothing done, error
	LoseReply             // done, then error
	Half                  // the first half done (rounded down), then error
	Ignore                // nothing done, and no error
)

// Fault makes calls fail.
type Fault struct {
	Op     string                 // empty: any
	Target string                 // an endpoint's ID, or the name or Id of a set in the request; empty: any
	On     func(hnssim.Call) bool // nil: any
	P      float64                // probability for each matching call; only Chances reads it
	Nth    int                    // the first matching call to fail, counted from now; 0 and 1: the next
	Times  int                    // number of consecutive matching calls; 0: one, -1: all; for Chances the maximum, 0: none
	Mode   Mode
	Err    error // the class, or a whole *hns.OpError; nil: hns.ErrUnavailable
	// Code is the HRESULT of the error, instead of Err; it determines the class.
	Code uint32
}

// armedFault is an injected fault.
type armedFault struct {
	Fault
	seen int // matching calls so far
	left int // calls to fail; negative: no end (-1 until the first one failed)
}

// Inject adds a fault. If several faults match a call, the first one applies.
func (s *Sim) Inject(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &armedFault{Fault: f, left: cmp.Or(f.Times, 1)})
}

// UnusedFaults returns the faults that have not occurred as often as requested. A test that injects faults
// checks at its end that the result is empty.
func (s *Sim) UnusedFaults() []Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Fault
	for _, f := range s.faults {
		if f.left > 0 || f.left == -1 {
			out = append(out, f.Fault)
		}
	}
	return out
}

// reject makes HNS reject every request for which match returns true, from now on; lift removes all
// rejections.
func (s *Sim) reject(lift bool, match func(hnssim.Call) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rejects = append(s.rejects, match); lift {
		s.rejects = nil
	}
}

// RejectSet makes HNS reject every Add and Update of a set for which match returns true, from now on. match
// must not use the Sim. nil removes all rejections.
func (s *Sim) RejectSet(match func(hns.SetPolicy) bool) {
	s.reject(match == nil, func(c hnssim.Call) bool { return c.Op != hns.OpSets(hns.Remove) && slices.ContainsFunc(c.Sets, match) })
}

// RejectACL makes HNS reject every request with a rule for which match returns true, from now on. match
// gets the canonical rule, and must not use the Sim. nil removes all rejections.
func (s *Sim) RejectACL(match func(hns.ACL) bool) {
	s.reject(match == nil, func(c hnssim.Call) bool { return slices.ContainsFunc(Rules(c), match) })
}

// perform carries out a call, or the fault that applies to it.
func (s *Sim) perform(ctx context.Context, c *Call, do func(half bool) error) error {
	if err := c.Broken(ctx); err != nil { // a hook may have ended ctx
		return err
	}
	s.mu.Lock()
	f := s.due(c)
	s.mu.Unlock()
	p, done := s.ask()
	if f == nil && p.Fail != nil {
		f = p.Fail(c.Call)
	}
	done()
	if latency := time.Duration(c.DLLCalls) * p.Latency; latency > 0 {
		select {
		case <-time.After(latency):
		case <-ctx.Done():
		}
	}
	gaveUp := c.Broken(ctx)
	if f == nil {
		return cmp.Or(gaveUp, do(false)) // HNS carries out the call, and the reply is lost
	}
	err := cmp.Or(f.Err, hns.ErrUnavailable)
	if f.Code != 0 {
		err = classOf(f.Code, nil)
	}
	err = c.Fail(f.Code, err)
	switch f.Mode {
	case LoseReply:
		_ = do(false) // the reply is lost
	case Half:
		_ = do(true)
	case Ignore:
		err = nil
	case Refuse: // nothing is done
	}
	return cmp.Or(gaveUp, err)
}

// due counts the call for every fault and returns the fault that applies to it, or nil;
// s.mu must be held.
func (s *Sim) due(c *Call) *Fault {
	var taken *Fault
	for _, f := range s.faults {
		if !f.matches(c) || f.left == 0 {
			continue
		}
		f.seen++
		if taken != nil || f.seen < f.Nth {
			continue
		}
		f.left--
		taken = &f.Fault
	}
	return taken
}

func (f *Fault) matches(c *Call) bool {
	if f.Op != "" && f.Op != c.Op || f.On != nil && !f.On(c.Call) {
		return false
	}
	return f.Target == "" || f.Target == c.Target ||
		slices.ContainsFunc(c.Sets, func(p hns.SetPolicy) bool { return p.Name == f.Target || p.ID == f.Target })
}
