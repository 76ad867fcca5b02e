package hnsfault

import (
	"errors"
	"fmt"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

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
