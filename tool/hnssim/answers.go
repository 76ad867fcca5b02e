package hnssim

import (
	"errors"
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
)

// Codes that only a personality answers with.
const (
	codeFail        uint32 = 0x80004005 // E_FAIL
	codeAfterUnload uint32 = 0x803B0031 // HCN_E_OBJECT_USED_AFTER_UNLOAD
)

// classOf returns the class that a client gives an answer with a code; refused is the class
// of a refusal of its request. A code about another object decides nothing.
func classOf(code uint32, refused error) error {
	says := hns.ErrUnlisted
	switch hns.LookupCode(code).Class {
	case hns.RefusesContent:
		return hns.ErrInvalid
	case hns.BrokeOff:
		return hns.ErrUnavailable
	case hns.RefusesEndpoint:
		says = hns.ErrInvalid
	case hns.SaysMissing:
		says = hns.ErrNotFound
	case hns.SaysExists:
		says = hns.ErrAlreadyExists
	case hns.SaysUsed:
		says = hns.ErrInUse
	case hns.Unlisted:
	}
	if errors.Is(refused, says) {
		return says
	}
	return hns.ErrUnlisted
}

// answer returns what a reason is an instance of.
func (r reason) answer() (Answer, bool) {
	switch r {
	case setExists:
		return SetExists, true
	case setMissing:
		return SetMissing, true
	case setInUse:
		return SetInUse, true
	case memberMissing, aclSetMissing:
		return NameMissing, true
	case endpointMissing:
		return EndpointMissing, true
	case endpointNotAttached, endpointRemote:
		return EndpointClosed, true
	default: // what is wrong with the content
	}
	switch refusals[r].kind {
	case hns.KindSet:
		return BadSet, true
	case hns.KindACL:
		return BadRule, true
	}
	return 0, false
}

// coded gives a refusal the code of this HNS; s.mu must be held.
func (s *Sim) coded(r *refused) *refused {
	if a, ok := r.reason.answer(); ok && s.odd != nil && r.code == 0 {
		r.code = s.odd.Codes[a]
	}
	return r
}

// class returns the class that a client gives the refusal. When HNS calls a rule or a
// nested set malformed, the client looks whether a set is missing: then that is the class.
func (r *refused) class() error {
	f := refusals[r.reason]
	if r.code == 0 || r.code == f.code {
		return f.class
	}
	class := classOf(r.code, f.class)
	if a, _ := r.reason.answer(); a == NameMissing && errors.Is(class, hns.ErrInvalid) {
		return f.class
	}
	return class
}

// kind returns what the error speaks of: with a code that says nothing, of no
// more than was written to.
func (r *refused) kind(op string) string {
	f := refusals[r.reason]
	if !errors.Is(r.class(), f.class) && slices.Contains([]string{hns.OpACLAdd, hns.OpACLUpdate}, op) {
		if errors.Is(r.class(), hns.ErrInvalid) {
			return hns.KindACL
		}
		return hns.KindEndpoint
	}
	return f.kind
}

// failed returns the error of a call that HNS answered with a code which says
// nothing about any object.
func (c *Call) failed(code uint32) error {
	err := c.fail(classOf(code, nil))
	if op, ok := errors.AsType[*hns.OpError](err); ok {
		op.Code = code
	}
	return err
}
