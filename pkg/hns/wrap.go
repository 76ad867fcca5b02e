package hns

import "context"

// Wrap returns a Client that passes every call to around. around must call do once and return its
// result. Hold is passed on to next directly.
func Wrap(next Client, around func(ctx context.Context, r Request, do func() Result) Result) Client {
	return wrapped{next, around}
}

type wrapped struct {
	next   Client
	around func(ctx context.Context, r Request, do func() Result) Result
}

func (w wrapped) ask(ctx context.Context, r Request) Result {
	return w.around(ctx, r, func() Result { return r.Do(ctx, w.next) })
}

// Network implements Client.
func (w wrapped) Network(ctx context.Context) (Network, error) {
	out := w.ask(ctx, Request{Op: OpNetworkGet})
	return out.Network, out.Err
}

// EndpointIDs implements Client.
func (w wrapped) EndpointIDs(ctx context.Context) ([]string, error) {
	out := w.ask(ctx, Request{Op: OpEndpointIDs})
	return out.IDs, out.Err
}

// NewEndpointIDs implements Client.
func (w wrapped) NewEndpointIDs(ctx context.Context) ([]string, error) {
	out := w.ask(ctx, Request{Op: OpEndpointNew})
	return out.IDs, out.Err
}

// GetEndpoint implements Client.
func (w wrapped) GetEndpoint(ctx context.Context, id string) (Endpoint, error) {
	out := w.ask(ctx, Request{Op: OpEndpointGet, Endpoint: id})
	return out.Endpoint, out.Err
}

// Hold implements Client.
func (w wrapped) Hold(ctx context.Context, endpoint string) func() { return w.next.Hold(ctx, endpoint) }

// ModifySets implements Client.
func (w wrapped) ModifySets(ctx context.Context, verb Verb, sets []SetPolicy) error {
	return w.ask(ctx, Request{Op: OpSets(verb), Sets: sets}).Err
}

// AddACLs implements Client.
func (w wrapped) AddACLs(ctx context.Context, endpoint string, acls []ACL) error {
	return w.ask(ctx, Request{Op: OpACLAdd, Endpoint: endpoint, ACLs: acls}).Err
}

// ReplacePolicies implements Client.
func (w wrapped) ReplacePolicies(ctx context.Context, endpoint string, policies []EndpointPolicy) error {
	return w.ask(ctx, Request{Op: OpACLUpdate, Endpoint: endpoint, Policies: policies}).Err
}
