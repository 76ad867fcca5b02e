package hnstest

import (
	"context"
	"errors"
	"net/netip"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
)

// enumeration: an endpoint shows up when it is attached and goes when it is
// deleted. That of a pod can be read; what else is enumerated may not be.
func enumeration(b *bench) {
	one, two := b.endpoint(), b.endpoint()
	require.ElementsMatch(b, []string{one, two}, b.listed())
	addrs := []netip.Addr{b.addr()}
	detached := b.create("endpoint that is attached to nothing", Endpoint{Addrs: addrs, Detached: true})
	require.NotContains(b, b.enumerated(), detached)
	got, err := b.client.GetEndpoint(b.ctx, detached)
	require.NoError(b, err, "it can be read all the same")
	require.Equal(b, hns.Endpoint{ID: detached, Addrs: addrs, Policies: got.Policies}, got)
	b.fixture.DeleteEndpoint(b.T, one)
	require.ElementsMatch(b, []string{two}, b.listed())
	require.NotContains(b, b.enumerated(), one)
}

// sharedAddress: two endpoints with one address are two, each with its own rules.
func sharedAddress(b *bench) {
	web := leaf("web")
	b.modify(hns.Add, web)
	one := b.endpoint()
	twin := b.create("second endpoint with an address that one has", Endpoint{Addrs: []netip.Addr{podAddr}})
	require.ElementsMatch(b, []string{one, twin}, b.listed())
	rule := allowFrom("one", web)
	require.NoError(b, b.client.AddACLs(b.ctx, twin, []hns.ACL{rule}))
	b.wantRules(one, nil)
	b.wantRules(twin, nil, rule)
}

// elsewhere asks whether an endpoint that no pod of our network has is told apart, enumerated or not.
func elsewhere(name string, create func(*bench, Endpoint) (string, error)) func(*bench) {
	return func(b *bench) { b.elsewhere(name, create) }
}

func onAnotherNode(b *bench, e Endpoint) (string, error) {
	e.Remote = true
	return b.fixture.CreateEndpoint(b.T, e)
}

func inAnotherNetwork(b *bench, e Endpoint) (string, error) {
	other, ok := b.fixture.(Elsewhere)
	if !ok {
		return "", errors.New("there is no other network")
	}
	return other.CreateElsewhere(b.T, e)
}

func (b *bench) elsewhere(name string, create func(*bench, Endpoint) (string, error)) {
	one := b.endpoint()
	id, err := create(b, Endpoint{Addrs: []netip.Addr{b.addr()}})
	if err != nil {
		b.skip("endpoint "+name, err)
	}
	b.Cleanup(func() { b.fixture.DeleteEndpoint(b.T, id) })
	for _, hold := range []bool{false, true} {
		release := func() {}
		if hold {
			release = b.client.Hold(b.ctx, id)
		}
		e, err := b.client.GetEndpoint(b.ctx, id)
		release()
		require.ErrorIs(b, err, hns.ErrElsewhere)
		require.NotErrorIs(b, err, hns.ErrNotFound)
		require.False(b, hns.EndpointGone(err))
		require.Zero(b, e)
		var op *hns.OpError
		require.ErrorAs(b, err, &op)
		require.Equal(b, []string{hns.OpEndpointGet, hns.KindEndpoint, id}, []string{op.Op, op.Kind, op.ID})
	}
	require.ElementsMatch(b, []string{one}, b.listed())
}

// held: a handle that calls share changes nothing of what they do.
func held(b *bench) {
	web := leaf("web")
	b.modify(hns.Add, web)
	ep, other := b.endpoint(foreignBlock()), b.endpoint()
	_, foreign := b.rules(ep)
	one, two, bad := allowFrom("one", web), allowFrom("two", web), allowFrom("bad")
	bad.RemoteAddresses = "Any"
	for range 2 { // what was released can be held again
		release := b.client.Hold(b.ctx, ep)
		b.wantRules(ep, foreign)
		require.NoError(b, b.client.AddACLs(b.ctx, ep, []hns.ACL{one}))
		b.wantRules(ep, foreign, one)
		err := b.client.AddACLs(b.ctx, ep, []hns.ACL{bad})
		b.refused(err, hns.ErrInvalid, hns.OpACLAdd, hns.KindACL, bad.ID)
		b.wantRules(ep, foreign, one)
		require.NoError(b, b.client.AddACLs(b.ctx, other, []hns.ACL{two}), "another endpoint goes its own way")
		require.NoError(b, b.client.ReplacePolicies(b.ctx, ep, append(slices.Clone(foreign), hns.NewACLPolicy(two))))
		b.wantRules(ep, foreign, two)
		release()
		b.wantRules(ep, foreign, two)
		b.wantRules(other, nil, two)
		require.NoError(b, b.client.ReplacePolicies(b.ctx, ep, foreign), "and after it")
		require.NoError(b, b.client.ReplacePolicies(b.ctx, other, nil))
	}
	b.client.Hold(b.ctx, ep)() // nobody called: nothing was opened
	b.wantRules(ep, foreign)

	release := b.client.Hold(b.ctx, ep)
	ctx, cancel := context.WithCancel(b.ctx)
	cancel()
	_, err := b.client.GetEndpoint(ctx, ep)
	b.refused(err, hns.ErrUnavailable, hns.OpEndpointGet, hns.KindEndpoint, ep)
	b.wantRules(ep, foreign)
	release()
	b.wantRules(ep, foreign)
}

// enumerated returns the GUIDs of whatever endpoints pods may have.
func (b *bench) enumerated() []string {
	b.Helper()
	ids, err := b.client.EndpointIDs(b.ctx)
	require.NoError(b, err)
	require.Len(b, slices.Compact(slices.Sorted(slices.Values(ids))), len(ids), "one twice")
	return ids
}

// listed returns the IDs of the suite's endpoints, found as an agent finds them.
func (b *bench) listed() []string {
	b.Helper()
	var ids []string
	for _, id := range b.enumerated() {
		e, err := b.client.GetEndpoint(b.ctx, id)
		if errors.Is(err, hns.ErrElsewhere) {
			continue
		}
		require.NoError(b, err)
		if slices.ContainsFunc(e.Addrs, netip.MustParsePrefix("10.90.0.0/16").Contains) {
			ids = append(ids, e.ID)
		}
	}
	return ids
}
