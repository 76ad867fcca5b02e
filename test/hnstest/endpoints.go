package hnstest

import (
	"errors"
	"net/netip"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
)

// detached describes an endpoint that some HNS versions cannot create.
const detached = "endpoint that is attached to nothing"

// enumeration tests that an endpoint is enumerated from its attachment until its deletion. The endpoint of
// a pod can be read, other enumerated endpoints perhaps not.
func enumeration(b *bench) {
	one, two := b.endpoint(), b.endpoint()
	require.ElementsMatch(b, []string{one, two}, b.listed())
	addrs := []netip.Addr{addr(2)}
	loose := b.create(detached, Endpoint{Addrs: addrs, Detached: true})
	require.NotContains(b, b.enumerated(), loose)
	got, err := b.get(loose)
	require.NoError(b, err, "it can be read all the same")
	require.Equal(b, hns.Endpoint{ID: loose, Addrs: addrs, Policies: got.Policies}, got)
	require.NoError(b, b.node.HNS.Delete("Endpoint", one))
	require.ElementsMatch(b, []string{two}, b.listed())
	require.NotContains(b, b.enumerated(), one)
}

// detachedRejects tests the code with which a detached endpoint rejects all rules.
func detachedRejects(b *bench) {
	ep := b.create(detached, Endpoint{Detached: true})
	err := b.add(ep, allowFrom("one"))
	require.Error(b, err)
	require.Equal(b, hns.RefusesEndpoint, hns.LookupCode(hns.CodeOf(err)).Class, "%v", err)
	b.wantRules(ep, nil)
}

// sharedAddress tests that two endpoints with one address have separate rules.
func sharedAddress(b *bench) {
	one, web, _ := b.pod()
	twin := b.create("second endpoint with an address that one has", Endpoint{Addrs: []netip.Addr{addr(0)}})
	require.ElementsMatch(b, []string{one, twin}, b.listed())
	rule := allowFrom("one", web)
	require.NoError(b, b.add(twin, rule))
	b.wantRules(one, nil)
	b.wantRules(twin, nil, rule)
}

// elsewhere tests that an endpoint of another node is recognized, if it is enumerated.
func elsewhere(b *bench) {
	one := b.endpoint()
	id := b.create("endpoint of another node", Endpoint{Remote: true})
	got, err := b.get(id)
	require.Zero(b, got)
	require.NotErrorIs(b, err, hns.ErrNotFound)
	b.rejected(err, hns.ErrElsewhere, hns.OpEndpointGet, hns.KindEndpoint, id)
	require.ElementsMatch(b, []string{one}, b.listed())
}

func missingEndpoint(b *bench) {
	ep, web, _ := b.pod()
	require.NoError(b, b.add(ep, allowFrom("one", web)))
	require.NoError(b, b.node.HNS.Delete("Endpoint", ep))

	_, read := b.get(ep)
	for op, err := range map[string]error{
		hns.OpEndpointGet: read, hns.OpACLAdd: b.add(ep, allowFrom("two", web)), hns.OpACLUpdate: b.replace(ep, nil),
	} {
		b.rejected(err, hns.ErrNotFound, op, hns.KindEndpoint, ep)
	}
	b.modify(hns.Remove, web)
}

func severalAddresses(b *bench) {
	addrs := []netip.Addr{addr(0), addr(1)}
	e, err := b.get(b.create("endpoint with two addresses", Endpoint{Addrs: addrs}))
	require.NoError(b, err)
	require.ElementsMatch(b, addrs, e.Addrs)
}

// held tests that calls with a shared handle have the same effects.
func held(b *bench) {
	ep, web, foreign := b.pod(foreignBlock)
	beside := b.endpoint()
	one, two, bad := allowFrom("one", web), allowFrom("two", web), badRule()
	for range 2 { // a released endpoint can be held again
		release := b.client.Hold(b.ctx, ep)
		b.wantRules(ep, foreign)
		require.NoError(b, b.replace(beside, nil, two), "whose handle is another one")
		require.NoError(b, b.add(ep, one))
		b.rejected(b.add(ep, bad), hns.ErrInvalid, hns.OpACLAdd, hns.KindACL, bad.ID)
		b.wantRules(ep, foreign, one)
		require.NoError(b, b.replace(ep, foreign, two))
		b.wantRules(ep, foreign, two)
		release()
		b.wantRules(ep, foreign, two)
		require.NoError(b, b.replace(ep, foreign), "and after it")
		b.wantRules(beside, nil, two)
	}
}

// everyEndpointReads reads all endpoints like the agent. An endpoint may be deleted meanwhile.
func everyEndpointReads(b *bench) {
	if errors.Is(b.do(hns.Request{Op: hns.OpNetworkGet}).Err, hns.ErrNotFound) {
		b.skip("this node has no network of pods")
	}
	for _, id := range b.enumerated() {
		e, err := b.get(id)
		if hns.EndpointGone(err) || errors.Is(err, hns.ErrElsewhere) {
			continue
		}
		require.NoError(b, err)
		for _, p := range e.Policies {
			require.NotContains(b, []string{"TierAcl", "NetworkACL"}, p.Type, "nobody knows what it does to our rules")
		}
	}
}

// enumerated returns the GUIDs of all endpoints that may be of pods.
func (b *bench) enumerated() []string {
	out := b.do(hns.Request{Op: hns.OpEndpointIDs})
	require.NoError(b, out.Err)
	require.Len(b, slices.Compact(slices.Sorted(slices.Values(out.IDs))), len(out.IDs), "one twice")
	return out.IDs
}

// listed returns the IDs of the suite's endpoints, found like an agent does.
func (b *bench) listed() []string {
	var ids []string
	for _, id := range b.enumerated() {
		e, err := b.get(id)
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
