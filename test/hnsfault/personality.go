package hnsfault

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// Personality is undocumented behaviour in which an HNS differs from the strict simulator. It changes
// answers of HNS, but never the effect of rules on packets. Each function may be nil, runs for one call at
// a time, and must not make calls of the client.
//
// It does not apply to other programs of the node (PutSet, SetPolicies, CreateEndpoint). Endpoint, Sets,
// Dump, Trace and Watch return the stored state.
type Personality struct {
	// Refuse returns the HRESULT with which this HNS always rejects a write that the strict simulator
	// accepts; 0: it accepts the write too.
	Refuse func(hnssim.Call) uint32
	// Code returns the HRESULT for a request that every HNS rejects; 0: the usual one. It determines the
	// class of the error.
	Code func(*hns.OpError) uint32
	// Fail returns the fault that a call meets; nil: none.
	Fail func(hnssim.Call) *Fault
	// Show changes the result of a read, which it may modify.
	Show func(op string, out *hns.Result)
	// Early lets an endpoint accept rules before it is attached, as in hcsshim's own tests
	// (hcn/hcnendpoint_test.go, TestApplyPolicyOnEndpoint).
	Early bool
	// Latency is the duration of one DLL call; a request takes it once for each of its calls. It uses a
	// timer, so use testing/synctest.
	Latency time.Duration
}

// SetPersonality sets the personality of the node; the zero value removes it. It does not change the stored
// state.
func (s *Sim) SetPersonality(p Personality) {
	s.mu.Lock()
	s.odd = p
	s.mu.Unlock()
	s.SetHooks(hnssim.Hooks{Call: s.call, Show: s.show, Wrote: s.wrote, Early: p.Early})
}

// ask returns the current personality, whose functions run one at a time: until done is called.
func (s *Sim) ask() (p Personality, done func()) {
	s.asking.Lock()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.odd, s.asking.Unlock
}

// show changes the result of a read.
func (s *Sim) show(op string, out *hns.Result) {
	p, done := s.ask()
	defer done()
	if p.Show != nil {
		p.Show(op, out)
	}
}

// refuse returns the error with which this HNS rejects a request that the strict one accepts; nil if it
// accepts it too.
func (s *Sim) refuse(c hnssim.Call) error {
	var code uint32
	p, done := s.ask()
	if p.Refuse != nil {
		code = p.Refuse(c)
	}
	done()
	s.mu.Lock()
	rejects := s.rejects
	s.mu.Unlock()
	if slices.ContainsFunc(rejects, func(match func(hnssim.Call) bool) bool { return match(c) }) {
		code = codeInvalidPolicy
	}
	if code == 0 {
		return nil
	}
	kind := hns.KindACL
	if len(c.Sets) > 0 {
		kind = hns.KindSet
	}
	op := c.Refusal(kind, codeInvalidPolicy, fmt.Errorf("%w: content that this node rejects", hns.ErrInvalid))
	return s.coded(c, recoded(c, op, code))
}

// Rules returns the rules that a request writes, in canonical form.
func Rules(c hnssim.Call) []hns.ACL {
	var out []hns.ACL
	for _, p := range c.Policies {
		if a, err := p.ACL(); err == nil {
			out = append(out, a.Canonical())
		}
	}
	for _, a := range c.ACLs {
		out = append(out, a.Canonical())
	}
	return out
}

// coded returns an error of the strict simulator with the code of this HNS.
func (s *Sim) coded(c hnssim.Call, err error) error {
	var op *hns.OpError
	if !errors.As(err, &op) || errors.Is(err, hns.ErrElsewhere) {
		return err
	}
	p, done := s.ask()
	defer done()
	if p.Code == nil {
		return err
	}
	if code := p.Code(op); code != 0 {
		return recoded(c, op, code)
	}
	return err
}

// OnlyDocumented is a Personality.Refuse that rejects an Update with another owner's
// rule that has an undocumented field, with E_INVALIDARG.
func OnlyDocumented(c hnssim.Call) uint32 {
	for _, p := range c.Policies {
		a, err := p.ACL()
		d := json.NewDecoder(bytes.NewReader(p.Settings))
		d.DisallowUnknownFields()
		if err == nil && !a.Ours() && d.Decode(&hns.ACL{}) != nil {
			return 0x80070057
		}
	}
	return 0
}

// Chances returns a Personality.Fail that draws faults. A matching call fails with probability P. Each
// fault occurs at most Times times, so that every history ends.
func Chances(seed uint64, faults ...Fault) func(hnssim.Call) *Fault {
	rng := rand.New(rand.NewPCG(seed, 2))
	return func(c hnssim.Call) *Fault {
		for i := range faults {
			if f := &faults[i]; f.Times > 0 && f.On(c) && rng.Float64() < f.P {
				f.Times--
				return f
			}
		}
		return nil
	}
}

// Shuffle returns a Personality.Show that returns policies, sets, values and GUIDs in another order at each
// read.
func Shuffle(seed uint64) func(op string, out *hns.Result) {
	var mu sync.Mutex // several nodes may share it
	rng := rand.New(rand.NewPCG(seed, 1))
	shuffle := func(n int, list any) { rng.Shuffle(n, reflect.Swapper(list)) }
	return func(_ string, out *hns.Result) {
		mu.Lock()
		defer mu.Unlock()
		shuffle(len(out.IDs), out.IDs)
		shuffle(len(out.Endpoint.Policies), out.Endpoint.Policies)
		shuffle(len(out.Network.Sets), out.Network.Sets)
		for _, p := range out.Network.Sets {
			shuffle(len(p.Values), p.Values)
		}
	}
}

// Late returns a Personality.Show that omits a new endpoint from the given number of enumerations.
func Late(times int) func(op string, out *hns.Result) {
	seen := map[string]int{}
	return func(op string, out *hns.Result) {
		out.IDs = slices.DeleteFunc(out.IDs, func(id string) bool {
			seen[id]++
			return seen[id] <= times
		})
	}
}

// codeInvalidPolicy is HNS's usual code for malformed content.
const codeInvalidPolicy uint32 = 0x803B000D

// classes are the error classes for codes. A code about another kind of object than the strict simulator's
// error is ignored.
var classes = map[hns.CodeClass]error{
	hns.RefusesContent: hns.ErrInvalid, hns.BrokeOff: hns.ErrUnavailable, hns.RefusesEndpoint: hns.ErrInvalid,
	hns.SaysMissing: hns.ErrNotFound, hns.SaysExists: hns.ErrAlreadyExists, hns.SaysUsed: hns.ErrInUse,
}

// classOf returns the class of an error with a code. refused is the error of the strict simulator, or nil.
func classOf(code uint32, refused error) error {
	says := hns.LookupCode(code).Class
	class, listed := classes[says]
	if listed && (says == hns.RefusesContent || says == hns.BrokeOff || errors.Is(refused, class)) {
		return class
	}
	return hns.ErrUnlisted
}

// recoded returns an error with another code, which determines the class. If the code means a malformed
// rule or nested set, the client checks whether a set is missing, which is then the class. With an
// unspecific code, the error names only the object that was written to.
func recoded(c hnssim.Call, op *hns.OpError, code uint32) *hns.OpError {
	class := classOf(code, op)
	if op.Kind == hns.KindSet && errors.Is(op, hns.ErrNotFound) && c.Op != hns.OpSets(hns.Remove) && errors.Is(class, hns.ErrInvalid) {
		class = hns.ErrNotFound
	}
	if errors.Is(op, class) {
		return c.Refusal(op.Kind, code, op.Err)
	}
	kind, err := op.Kind, fmt.Errorf("%w: %v", class, op.Err) //nolint:errorlint // the class is another one
	if len(c.Sets) == 0 {
		if kind = hns.KindEndpoint; errors.Is(class, hns.ErrInvalid) {
			kind = hns.KindACL
		}
	}
	return c.Refusal(kind, code, err)
}
