package hns

import (
	"errors"
	"fmt"
)

// The classes of errors. Test with errors.Is; decide by class, never by text.
var (
	// ErrNotFound: the network, endpoint, set or policy does not exist.
	ErrNotFound = errors.New("not found")
	// ErrAlreadyExists: an added object is there already.
	ErrAlreadyExists = errors.New("already exists")
	// ErrInUse: the object is still referenced.
	ErrInUse = errors.New("in use")
	// ErrConflict: the object changed since the version the write was planned from.
	ErrConflict = errors.New("changed since it was read")
	// ErrInvalid: HNS refuses the request as malformed or not supported.
	ErrInvalid = errors.New("invalid")
	// ErrUnavailable: the service hangs or is down, the call broke off, or our
	// network cannot be read, without which a call was not made.
	ErrUnavailable = errors.New("service unavailable")
	// ErrUnlisted: HNS gave an answer that decides nothing: a code that is in no table of
	// ours or does not fit the request, or a text that makes no sense. A write may have
	// been done, and only a read can tell.
	ErrUnlisted = errors.New("answered with a code of no known meaning")
	// ErrElsewhere: the endpoint is remote, or of another network.
	ErrElsewhere = errors.New("not a local endpoint of our network")
)

// Object kinds of an OpError.
const (
	KindNetwork  = "network"
	KindEndpoint = "endpoint"
	KindSet      = "set"
	KindACL      = "acl"
)

// Operations, as an OpError and whoever counts calls name them.
const (
	OpNetworkGet  = "Network/Get"
	OpEndpointIDs = "Endpoint/Enumerate"
	OpEndpointNew = "Endpoint/EnumerateNew"
	OpEndpointGet = "Endpoint/Get"
	OpACLAdd      = "ACL/Add"
	OpACLUpdate   = "ACL/Update"
)

// OpSets names a request for sets.
func OpSets(v Verb) string { return "SetPolicy/" + string(v) }

// OpError says which operation failed on what, and why.
type OpError struct {
	Op   string // kind and verb as counted: "SetPolicy/Add", "ACL/Update", "Endpoint/Get"
	Kind string // KindNetwork, KindEndpoint, KindSet or KindACL: what Err speaks of
	ID   string // of the object that Err speaks of
	Code uint32 // HRESULT of HNS, see LookupCode; 0 when there was none
	Err  error  // one of the classes, or what wraps it
}

// Error implements error.
func (e *OpError) Error() string {
	s := fmt.Sprintf("hns %s: %s %s: %v", e.Op, e.Kind, e.ID, e.Err)
	if e.Code != 0 {
		s += fmt.Sprintf(" (0x%08x)", e.Code)
	}
	return s
}

// Unwrap returns the class.
func (e *OpError) Unwrap() error { return e.Err }

// OutcomeUnknown reports whether a write that returned err may have been done
// all the same: a lost reply, a deadline, or an error of no known class.
func OutcomeUnknown(err error) bool {
	if err == nil {
		return false
	}
	for _, refusal := range []error{ErrNotFound, ErrAlreadyExists, ErrInUse, ErrConflict, ErrInvalid, ErrElsewhere} {
		if errors.Is(err, refusal) {
			return false
		}
	}
	return true
}

// Answered reports whether HNS answered a call that failed with err: a refusal, or
// an answer that we do not know. A call that broke off was not answered.
func Answered(err error) bool {
	return err != nil && (errors.Is(err, ErrUnlisted) || !OutcomeUnknown(err))
}

// CodeOf returns the HRESULT with which HNS answered, 0 when there is none.
func CodeOf(err error) uint32 {
	var op *OpError
	if !errors.As(err, &op) {
		return 0
	}
	return op.Code
}

// EndpointGone reports whether err says that the endpoint itself, not a set
// that a rule names, does not exist.
func EndpointGone(err error) bool {
	var op *OpError
	return errors.Is(err, ErrNotFound) && errors.As(err, &op) && op.Kind == KindEndpoint
}
