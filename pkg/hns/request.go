package hns

import "context"

// Request is one call of a Client, as a value. It shares its slices with its maker. They must not
// be changed.
type Request struct {
	Op       string           // one of the Op constants, or OpSets of a verb
	Endpoint string           // GUID: OpEndpointGet, OpACLAdd, OpACLUpdate
	Sets     []SetPolicy      // OpSets
	ACLs     []ACL            // OpACLAdd
	Policies []EndpointPolicy // OpACLUpdate: all policies that the endpoint will have
}

// Result is the result of a call. Request.Op determines which field is set.
type Result struct {
	Network  Network
	IDs      []string
	Endpoint Endpoint
	Err      error
}

// verbs are the verbs of requests for sets, by operation.
var verbs = map[string]Verb{OpSets(Add): Add, OpSets(Update): Update, OpSets(Remove): Remove}

// Verb returns the verb of a request for sets, or "" for any other request.
func (r Request) Verb() Verb { return verbs[r.Op] }

// Do makes the call. It panics if the operation is unknown, which is a bug.
func (r Request) Do(ctx context.Context, c Client) (out Result) {
	switch r.Op {
	case OpNetworkGet:
		out.Network, out.Err = c.Network(ctx)
	case OpEndpointIDs:
		out.IDs, out.Err = c.EndpointIDs(ctx)
	case OpEndpointNew:
		out.IDs, out.Err = c.NewEndpointIDs(ctx)
	case OpEndpointGet:
		out.Endpoint, out.Err = c.GetEndpoint(ctx, r.Endpoint)
	case OpACLAdd:
		out.Err = c.AddACLs(ctx, r.Endpoint, r.ACLs)
	case OpACLUpdate:
		out.Err = c.ReplacePolicies(ctx, r.Endpoint, r.Policies)
	default:
		verb, is := verbs[r.Op]
		if !is {
			panic("BUG: no such call of HNS: " + r.Op)
		}
		out.Err = c.ModifySets(ctx, verb, r.Sets)
	}
	return out
}

// Asking returns a function that makes requests to a client with a fixed context.
func Asking(ctx context.Context, c Client) func(Request) Result {
	return func(r Request) Result { return r.Do(ctx, c) }
}
