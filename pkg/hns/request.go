package hns

import "context"

// Request is one call of a Client, as a value. It shares its slices with whoever made
// it; nobody changes them.
type Request struct {
	Op       string           // one of the Op constants, or OpSets of a verb
	Endpoint string           // GUID: OpEndpointGet, OpACLAdd, OpACLUpdate
	Sets     []SetPolicy      // OpSets
	ACLs     []ACL            // OpACLAdd
	Policies []EndpointPolicy // OpACLUpdate: all that the endpoint is to have
}

// Result is what a call returned; which field has it follows from Request.Op.
type Result struct {
	Network  Network
	IDs      []string
	Endpoint Endpoint
	Err      error
}

// verbs are the verbs of requests for sets, by operation.
var verbs = map[string]Verb{OpSets(Add): Add, OpSets(Update): Update, OpSets(Remove): Remove}

// Verb returns what a request for sets does with them; "" for another one.
func (r Request) Verb() Verb { return verbs[r.Op] }

// ReadsOnly reports whether an operation changes nothing.
func ReadsOnly(op string) bool {
	return op == OpNetworkGet || op == OpEndpointIDs || op == OpEndpointNew || op == OpEndpointGet
}

// Do makes the call. An operation that no Client has is a bug, and panics.
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

// Asking returns what makes requests to a client, within a context.
func Asking(ctx context.Context, c Client) func(Request) Result {
	return func(r Request) Result { return r.Do(ctx, c) }
}
