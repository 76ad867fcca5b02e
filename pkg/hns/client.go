package hns

import "context"

// Client reads and writes one HNS network and its local endpoints.
//
// Calls may take from milliseconds to a minute, can hang, and cannot be
// cancelled once begun; ctx only bounds how long the caller waits. A write that
// ends in an error for which OutcomeUnknown is true may have been done.
// Arguments and results are owned by the caller: an implementation keeps no
// slice it was given and returns no slice that it keeps.
//
// Every method can fail with ErrUnavailable; the others it returns are listed.
type Client interface {
	// Network reads our network with all its sets.
	// ErrNotFound: the network does not exist (yet).
	Network(ctx context.Context) (Network, error)

	// EndpointIDs enumerates the endpoints that pods of our network may have, by
	// GUID, and reads none: two DLL calls. There may be others among them, of which
	// GetEndpoint says ErrElsewhere. Order is not defined.
	EndpointIDs(ctx context.Context) ([]string, error)

	// NewEndpointIDs enumerates the endpoints that a CNI has made and nothing uses yet,
	// by GUID: one DLL call. That of a pod is one of them until its sandbox runs, or is
	// among EndpointIDs from the start, as HNS has it. There may be others among them,
	// too.
	NewEndpointIDs(ctx context.Context) ([]string, error)

	// GetEndpoint reads one endpoint in whatever state it is.
	// ErrNotFound: it is gone. ErrElsewhere: it is remote, or of another network.
	GetEndpoint(ctx context.Context, id string) (Endpoint, error)

	// Hold has the calls for one endpoint share a handle of HNS, which the first of
	// them opens and release closes: a read, a write and a read are five DLL calls
	// then, and nine otherwise. It makes no call itself. Nobody holds an endpoint
	// twice; release is called once, and not while a call for it is made.
	Hold(ctx context.Context, endpoint string) (release func())

	// ModifySets sends one request for sets of one type, all or nothing.
	// Add: ErrAlreadyExists for a set that is there, ErrNotFound for a nested
	// set whose member is missing. Update: silently ignores a missing set.
	// Remove: ErrNotFound for a missing set, ErrInUse for one that an ACL or a
	// nested set names. ErrInvalid: a malformed set.
	ModifySets(ctx context.Context, verb Verb, sets []SetPolicy) error

	// AddACLs appends rules to an endpoint; what is there stays.
	// ErrNotFound: the endpoint is gone, or a rule names a missing set (the
	// OpError's Kind tells which). ErrInvalid: HNS refuses a rule.
	AddACLs(ctx context.Context, endpoint string, acls []ACL) error

	// ReplacePolicies sends an Update: all policies of the endpoint, of every
	// type and owner, become exactly these. Errors are those of AddACLs.
	ReplacePolicies(ctx context.Context, endpoint string, policies []EndpointPolicy) error
}
