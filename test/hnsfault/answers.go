package hnsfault

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// Codes of HNS (golang.org/x/sys/windows, zerrors_windows.go, HCN_E_*).
const (
	codeEndpointNotFound uint32 = 0x803B0002
	codeInvalidEndpoint  uint32 = 0x803B000C
	codeInvalidPolicy    uint32 = 0x803B000D
	codeInvalidType      uint32 = 0x803B000E
	codeInvalidJSON      uint32 = 0x803B001B
	codeInvalidIP        uint32 = 0x803B001E
	codeFail             uint32 = 0x80004005 // E_FAIL
	codeAfterUnload      uint32 = 0x803B0031 // HCN_E_OBJECT_USED_AFTER_UNLOAD
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

// answerOf returns what a refusal of the strict simulator is an instance of.
func answerOf(op *hns.OpError) (Answer, bool) {
	switch {
	case op.Kind == hns.KindACL:
		return BadRule, true
	case op.Kind == hns.KindEndpoint && errors.Is(op, hns.ErrNotFound):
		return EndpointMissing, true
	case op.Kind == hns.KindEndpoint && errors.Is(op, hns.ErrInvalid):
		return EndpointClosed, true
	case op.Kind != hns.KindSet:
		return 0, false
	case errors.Is(op, hns.ErrAlreadyExists):
		return SetExists, true
	case errors.Is(op, hns.ErrInUse):
		return SetInUse, true
	case errors.Is(op, hns.ErrNotFound) && op.Op == hns.OpSets(hns.Remove):
		return SetMissing, true
	case errors.Is(op, hns.ErrNotFound):
		return NameMissing, true
	}
	return BadSet, true
}

// coded gives a refusal of the strict simulator the code of this HNS.
func (s *Sim) coded(c hnssim.Call, err error) error {
	var op *hns.OpError
	if !errors.As(err, &op) {
		return err
	}
	a, ok := answerOf(op)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !ok || s.odd == nil || s.odd.Codes[a] == 0 {
		return err
	}
	return recoded(c, op, s.odd.Codes[a])
}

// refuse returns the refusal of content that the strict simulator takes; code 0:
// as for malformed content. s.mu must be held.
func (s *Sim) refuse(c hnssim.Call, what string, code uint32) error {
	answer, kind := BadRule, hns.KindACL
	if len(c.Sets) > 0 {
		answer, kind = BadSet, hns.KindSet
	}
	if s.odd != nil {
		code = cmp.Or(code, s.odd.Codes[answer])
	}
	return recoded(c, &hns.OpError{
		Op: c.Op, Kind: kind, ID: idsOf(c, kind), Code: codeInvalidPolicy,
		Err: fmt.Errorf("%w: content that this node refuses: %s", hns.ErrInvalid, what),
	}, cmp.Or(code, codeInvalidPolicy))
}

// recoded returns a refusal with another code. The class follows from the code.
// When HNS calls a rule or a nested set malformed, the client looks whether a set
// is missing: then that is the class. With a code that says nothing, the error
// speaks of no more than was written to.
func recoded(c hnssim.Call, op *hns.OpError, code uint32) *hns.OpError {
	out := *op
	if code == op.Code {
		return &out
	}
	out.Code = code
	class := classOf(code, op)
	if a, _ := answerOf(op); a == NameMissing && errors.Is(class, hns.ErrInvalid) {
		class = hns.ErrNotFound
	}
	if errors.Is(op, class) {
		return &out
	}
	out.Err = fmt.Errorf("%w: %v", class, op.Err) //nolint:errorlint // the class is another one
	if c.Op == hns.OpACLAdd || c.Op == hns.OpACLUpdate {
		out.Kind = hns.KindEndpoint
		if errors.Is(class, hns.ErrInvalid) {
			out.Kind = hns.KindACL
		}
		out.ID = idsOf(c, out.Kind)
	}
	return &out
}

// idsOf returns the ID of an error of a kind: HNS never says which of several
// objects it means.
func idsOf(c hnssim.Call, kind string) string {
	var ids []string
	for _, p := range c.Sets {
		ids = append(ids, p.ID)
	}
	if kind == hns.KindACL {
		ours, _ := hns.Endpoint{Policies: c.Policies}.Split()
		for _, a := range slices.Concat(c.ACLs, ours) {
			ids = append(ids, a.ID)
		}
	}
	slices.Sort(ids)
	switch ids = slices.Compact(ids); {
	case kind == hns.KindEndpoint:
		return c.Target
	case len(ids) == 0:
		return ""
	case len(ids) == 1:
		return ids[0]
	}
	return fmt.Sprintf("one of %d", len(ids))
}

// failed returns the error of a call that HNS answered with a code which says
// nothing about any object.
func failed(c hnssim.Call, code uint32) error {
	err := c.Fail(classOf(code, nil))
	if op, ok := errors.AsType[*hns.OpError](err); ok {
		op.Code = code
	}
	return err
}
