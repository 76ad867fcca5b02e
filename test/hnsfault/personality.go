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

// Personality says how an HNS differs from the strict simulator in what nobody
// documents. It is about what HNS answers and shows, never about packets: a rule
// means the same under each of them. Each function may be nil, runs for one call
// at a time, and must not make calls of the client.
//
// Other programs of the node (PutSet, SetPolicies, CreateEndpoint) are not subject
// to it. Endpoint, Sets, Dump, Trace and Watch show what is stored.
type Personality struct {
	// Refuse returns the HRESULT with which this HNS rejects, for good, a write
	// that the strict simulator accepts; 0: it accepts the write too.
	Refuse func(hnssim.Call) uint32
	// Code returns the HRESULT of a refusal that every HNS makes; 0: the usual one.
	// The class of the error follows from the code.
	Code func(*hns.OpError) uint32
	// Fail returns the fault that a call meets; nil: none.
	Fail func(hnssim.Call) *Fault
	// Show changes what a read returns; the result belongs to it.
	Show func(op string, out *hns.Result)
	// Early: an endpoint that is created and not attached yet takes rules, as
	// hcsshim's own tests have it (hcn/hcnendpoint_test.go, TestApplyPolicyOnEndpoint).
	Early bool
	// Latency is what one call of a DLL takes; a request takes it once for each of
	// its calls. It is waited for with a timer: use testing/synctest.
	Latency time.Duration
}

// SetPersonality gives the node another personality; the zero value lifts it.
// What is stored stays.
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

// show changes what a read returns.
func (s *Sim) show(op string, out *hns.Result) {
	p, done := s.ask()
	defer done()
	if p.Show != nil {
		p.Show(op, out)
	}
}

// refuse returns why this HNS rejects a request that the strict one accepts; nil when
// it accepts it too.
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

// Rules returns the rules that a request writes, canonical.
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

// coded gives a refusal of the strict simulator the code of this HNS.
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

// Chances returns a Personality.Fail that draws faults: each of their calls meets one with its
// probability P, and no more than Times, so that every history comes to its end.
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

// Shuffle returns a Personality.Show that shows policies, sets, values and GUIDs in
// another order at each read.
func Shuffle(seed uint64) func(op string, out *hns.Result) {
	var mu sync.Mutex // several nodes may have it
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

// Late returns a Personality.Show that leaves a new endpoint out of so many enumerations.
func Late(times int) func(op string, out *hns.Result) {
	seen := map[string]int{}
	return func(op string, out *hns.Result) {
		out.IDs = slices.DeleteFunc(out.IDs, func(id string) bool {
			seen[id]++
			return seen[id] <= times
		})
	}
}

// codeInvalidPolicy is HNS's usual answer to malformed content.
const codeInvalidPolicy uint32 = 0x803B000D

// classes are what a client makes of codes. A code about another object than the one
// that the strict simulator speaks of decides nothing.
var classes = map[hns.CodeClass]error{
	hns.RefusesContent: hns.ErrInvalid, hns.BrokeOff: hns.ErrUnavailable, hns.RefusesEndpoint: hns.ErrInvalid,
	hns.SaysMissing: hns.ErrNotFound, hns.SaysExists: hns.ErrAlreadyExists, hns.SaysUsed: hns.ErrInUse,
}

// classOf returns the class that a client gives an answer with a code; refused is the
// refusal of the strict simulator, or nil.
func classOf(code uint32, refused error) error {
	says := hns.LookupCode(code).Class
	class, listed := classes[says]
	if listed && (says == hns.RefusesContent || says == hns.BrokeOff || errors.Is(refused, class)) {
		return class
	}
	return hns.ErrUnlisted
}

// recoded returns a refusal with another code. The class follows from the code.
// When HNS calls a rule or a nested set malformed, the client looks whether a set
// is missing: then that is the class. With a code that says nothing, the error
// speaks of no more than was written to.
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
