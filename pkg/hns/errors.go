package hns

import (
	"errors"
	"fmt"
)

// The classes of errors. Test with errors.Is; decide by class, never by text.
var (
	// ErrNotFound: the network, endpoint, set or policy does not exist.
	ErrNotFound = errors.New("not found")
	// ErrAlreadyExists: an added object already exists.
	ErrAlreadyExists = errors.New("already exists")
	// ErrInUse: the object is still referenced.
	ErrInUse = errors.New("in use")
	// ErrConflict: the object changed since the version that the write was planned from.
	ErrConflict = errors.New("changed since it was read")
	// ErrInvalid: HNS rejects the request as malformed or not supported.
	ErrInvalid = errors.New("invalid")
	// ErrUnavailable: the service hangs or is down, the call broke off, or the call was not made
	// because our network could not be read.
	ErrUnavailable = errors.New("service unavailable")
	// ErrUnlisted: HNS gave an answer that decides nothing: an unlisted code, a code that does not
	// fit the request, or a malformed text. A write may have been done, and only a read can tell.
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

// Operations, as used in OpError, Request and metrics.
const (
	OpNetworkGet  = "Network/Get"
	OpEndpointIDs = "Endpoint/Enumerate"
	OpEndpointNew = "Endpoint/EnumerateNew"
	OpEndpointGet = "Endpoint/Get"
	OpACLAdd      = "ACL/Add"
	OpACLUpdate   = "ACL/Update"
)

// OpSets returns the operation of a request for sets.
func OpSets(v Verb) string { return "SetPolicy/" + string(v) }

// OpError says which operation failed, on which object, and why.
type OpError struct {
	Op   string // an operation: "SetPolicy/Add", "ACL/Update", "Endpoint/Get"
	Kind string // KindNetwork, KindEndpoint, KindSet or KindACL: the kind of the object that Err is about
	ID   string // of the object that Err is about
	Code uint32 // HRESULT of HNS, see LookupCode; 0 if HNS returned none
	Err  error  // one of the classes, or an error that wraps one
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

// OutcomeUnknown reports whether a write that returned err may have been done: the answer was lost
// or late, or err is of no known class.
func OutcomeUnknown(err error) bool {
	if err == nil {
		return false
	}
	for _, notDone := range []error{ErrNotFound, ErrAlreadyExists, ErrInUse, ErrConflict, ErrInvalid, ErrElsewhere} {
		if errors.Is(err, notDone) {
			return false
		}
	}
	return true
}

// Answered reports whether HNS answered a call that failed with err: with a rejection, or with an
// answer of unknown meaning. A call that broke off was not answered.
func Answered(err error) bool {
	return err != nil && (errors.Is(err, ErrUnlisted) || !OutcomeUnknown(err))
}

// CodeOf returns the HRESULT in err, or 0.
func CodeOf(err error) uint32 {
	var op *OpError
	if !errors.As(err, &op) {
		return 0
	}
	return op.Code
}

// EndpointGone reports whether err says that the endpoint itself does not exist. A missing set that
// a rule names does not count.
func EndpointGone(err error) bool {
	var op *OpError
	return errors.Is(err, ErrNotFound) && errors.As(err, &op) && op.Kind == KindEndpoint
}
