package hns

import "context"

// Client reads and writes one HNS network and its local endpoints.
//
// A call may take from milliseconds to a minute, can hang, and cannot be cancelled once it has
// begun; ctx only limits how long the caller waits. If a write returns an error for which
// OutcomeUnknown is true, it may have been done. Arguments and results belong to the caller: an
// implementation must not keep a slice that it was given, or return a slice that it keeps.
//
// Every method can fail with ErrUnavailable. The other errors are listed at each method.
type Client interface {
	// Network reads our network with all its sets.
	// ErrNotFound: the network does not exist (yet).
	Network(ctx context.Context) (Network, error)

	// EndpointIDs returns the GUIDs of the endpoints that pods of our network may have, in any
	// order. It reads no endpoint and takes two DLL calls. The result may include endpoints for
	// which GetEndpoint returns ErrElsewhere.
	EndpointIDs(ctx context.Context) ([]string, error)

	// NewEndpointIDs returns the GUIDs of the endpoints that a CNI has made and nothing uses yet.
	// It takes one DLL call. A pod's endpoint is one of them until the pod's sandbox runs; some
	// versions of HNS list it among EndpointIDs from the start. The result may include endpoints of
	// other networks.
	NewEndpointIDs(ctx context.Context) ([]string, error)

	// GetEndpoint reads one endpoint in any state. ErrNotFound: the endpoint is gone. ErrElsewhere:
	// it is remote, or of another network.
	GetEndpoint(ctx context.Context, id string) (Endpoint, error)

	// Hold makes the calls for one endpoint share a handle of HNS, which the first of them opens
	// and release closes. A read, a write and a read then take five DLL calls instead of nine. Hold
	// itself makes no call. An endpoint must not be held twice at the same time. release must be
	// called once, and not during a call for the endpoint.
	Hold(ctx context.Context, endpoint string) (release func())

	// ModifySets sends one request for sets of one type, all or nothing. Add: ErrAlreadyExists for
	// an existing set, ErrNotFound for a nested set with a missing member. Update: silently ignores
	// a missing set. Remove: ErrNotFound for a missing set, ErrInUse for a set that an ACL or a
	// nested set names. ErrInvalid: a malformed set.
	ModifySets(ctx context.Context, verb Verb, sets []SetPolicy) error

	// AddACLs appends rules to the policies of an endpoint. ErrNotFound: the endpoint is gone, or a
	// rule names a missing set (the OpError's Kind tells which). ErrInvalid: HNS rejects a rule.
	AddACLs(ctx context.Context, endpoint string, acls []ACL) error

	// ReplacePolicies sends an Update, which replaces all policies of the endpoint, of every type
	// and owner. It returns the same errors as AddACLs.
	ReplacePolicies(ctx context.Context, endpoint string, policies []EndpointPolicy) error
}
