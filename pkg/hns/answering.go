package hns

import (
	"context"
	"slices"
)

// Answering returns a Client whose calls are answered as values: the inverse of Asking. What
// answer is given it may keep, and what it returns stays its own.
func Answering(answer func(context.Context, Request) Result) Client { return answering(answer) }

type answering func(context.Context, Request) Result

// Network implements Client.
func (a answering) Network(ctx context.Context) (Network, error) {
	res := a(ctx, Request{Op: OpNetworkGet})
	res.Network.Sets = cloneSets(res.Network.Sets)
	return res.Network, res.Err
}

// EndpointIDs implements Client.
func (a answering) EndpointIDs(ctx context.Context) ([]string, error) {
	res := a(ctx, Request{Op: OpEndpointIDs})
	return slices.Clone(res.IDs), res.Err
}

// NewEndpointIDs implements Client.
func (a answering) NewEndpointIDs(ctx context.Context) ([]string, error) {
	res := a(ctx, Request{Op: OpEndpointNew})
	return slices.Clone(res.IDs), res.Err
}

// GetEndpoint implements Client.
func (a answering) GetEndpoint(ctx context.Context, id string) (Endpoint, error) {
	res := a(ctx, Request{Op: OpEndpointGet, Endpoint: id})
	if res.Err != nil {
		return Endpoint{}, res.Err
	}
	e := res.Endpoint
	e.Addrs, e.Policies = slices.Clone(e.Addrs), slices.Clone(e.Policies)
	return e, nil
}

// Hold implements Client: an answer needs no handle.
func (a answering) Hold(context.Context, string) (release func()) { return func() {} }

// ModifySets implements Client.
func (a answering) ModifySets(ctx context.Context, verb Verb, sets []SetPolicy) error {
	return a(ctx, Request{Op: OpSets(verb), Sets: cloneSets(sets)}).Err
}

// AddACLs implements Client.
func (a answering) AddACLs(ctx context.Context, endpoint string, acls []ACL) error {
	return a(ctx, Request{Op: OpACLAdd, Endpoint: endpoint, ACLs: slices.Clone(acls)}).Err
}

// ReplacePolicies implements Client.
func (a answering) ReplacePolicies(ctx context.Context, endpoint string, policies []EndpointPolicy) error {
	return a(ctx, Request{Op: OpACLUpdate, Endpoint: endpoint, Policies: slices.Clone(policies)}).Err
}

// cloneSets copies sets with their values.
func cloneSets(sets []SetPolicy) []SetPolicy {
	out := slices.Clone(sets)
	for i, s := range out {
		out[i].Values = slices.Clone(s.Values)
	}
	return out
}
