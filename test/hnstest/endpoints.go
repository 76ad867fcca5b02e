package hnstest

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/versioned"
)

func addAppends(b *bench) {
	web := leaf("web")
	b.modify(hns.Add, web)
	ep := b.endpoint(b.others()...)
	_, foreign := b.rules(ep)
	one, two, three := allowFrom("one", web), allowFrom("two", web), allowFrom("three", web)
	require.NoError(b, b.client.AddACLs(b.ctx, ep, []hns.ACL{one}))
	require.NoError(b, b.client.AddACLs(b.ctx, ep, []hns.ACL{two, three}))
	b.wantRules(ep, foreign, one, two, three)
}

func readBackMeaning(b *bench) {
	web, ns := leaf("web"), leaf("ns")
	b.modify(hns.Add, web, ns)
	ep := b.endpoint()
	rule := func(name string, change func(*hns.ACL)) hns.ACL {
		a := hns.ACL{
			ID: hns.ACLIDPrefix + "hnstest." + name, Action: hns.Allow,
			Direction: hns.In, RuleType: hns.Switch, Priority: hns.PriorityAllow,
		}
		change(&a)
		return a
	}
	rules := []hns.ACL{
		rule("block", func(a *hns.ACL) { a.Action, a.Priority = hns.Block, hns.PriorityBlock }),
		rule("any", func(a *hns.ACL) { a.Protocols = "" }),
		rule("everyone", func(a *hns.ACL) { a.Protocols, a.LocalPorts = "17", "53" }),
		rule("sets", func(a *hns.ACL) { a.LocalAddresses = ns.ID + "," + web.ID }),
		rule("out", func(a *hns.ACL) {
			a.Direction, a.RemoteAddresses = hns.Out, web.ID
			a.Protocols, a.RemotePorts = "6", "80,443,8000-8080"
		}),
		rule("literals", func(a *hns.ACL) { a.RemoteAddresses = "10.91.0.1,10.92.0.0/16" }),
	}
	require.NoError(b, b.client.AddACLs(b.ctx, ep, rules))
	b.wantRules(ep, nil, rules...)

	e, err := b.client.GetEndpoint(b.ctx, ep)
	require.NoError(b, err)
	require.NoError(b, b.client.ReplacePolicies(b.ctx, ep, e.Policies), "what was read can be written")
	b.wantRules(ep, nil, rules...)
}

// needsSets returns a question: HNS refuses a write of a rule with a set that is not there.
func needsSets(op string, write func(b *bench, endpoint string, rule hns.ACL) error) func(*bench) {
	return func(b *bench) {
		ep := b.endpoint()
		gone := leaf("gone")
		err := write(b, ep, allowFrom("one", gone))
		b.refused(err, hns.ErrNotFound, op, hns.KindSet, gone.ID)
		require.False(b, hns.EndpointGone(err))
		b.wantRules(ep, nil)
	}
}

func addRule(b *bench, endpoint string, rule hns.ACL) error {
	return b.client.AddACLs(b.ctx, endpoint, []hns.ACL{rule})
}

func replaceByRule(b *bench, endpoint string, rule hns.ACL) error {
	return b.client.ReplacePolicies(b.ctx, endpoint, []hns.EndpointPolicy{hns.NewACLPolicy(rule)})
}

func malformedRule(b *bench) {
	ep := b.endpoint()
	bad := allowFrom("bad")
	bad.RemoteAddresses = "Any" // refused with 0x803B000D (hcsshim#1059)
	b.refused(addRule(b, ep, bad), hns.ErrInvalid, hns.OpACLAdd, hns.KindACL, bad.ID)
	b.refused(replaceByRule(b, ep, bad), hns.ErrInvalid, hns.OpACLUpdate, hns.KindACL, bad.ID)
	b.wantRules(ep, nil)
}

func rulesAllOrNothing(b *bench) {
	web := leaf("web")
	b.modify(hns.Add, web)
	ep := b.endpoint(b.others()...)
	_, foreign := b.rules(ep)
	one, bad := allowFrom("one", web), allowFrom("bad")
	bad.RemoteAddresses = "Any"
	require.NoError(b, b.client.AddACLs(b.ctx, ep, []hns.ACL{one}))

	err := b.client.AddACLs(b.ctx, ep, []hns.ACL{allowFrom("two", web), bad})
	require.ErrorIs(b, err, hns.ErrInvalid)
	b.wantRules(ep, foreign, one)
	err = b.client.ReplacePolicies(b.ctx, ep, []hns.EndpointPolicy{hns.NewACLPolicy(allowFrom("two", web)), hns.NewACLPolicy(bad)})
	require.ErrorIs(b, err, hns.ErrInvalid)
	b.wantRules(ep, foreign, one)
}

func replaceReplaces(b *bench) {
	web := leaf("web")
	b.modify(hns.Add, web)
	ep := b.endpoint(b.others()...)
	require.NoError(b, b.client.AddACLs(b.ctx, ep, []hns.ACL{allowFrom("one", web)}))
	two := allowFrom("two", web)
	require.NoError(b, b.client.ReplacePolicies(b.ctx, ep, []hns.EndpointPolicy{hns.NewACLPolicy(two)}))
	b.wantRules(ep, nil, two)
	require.NoError(b, b.client.ReplacePolicies(b.ctx, ep, nil), "an empty list clears the endpoint")
	b.wantRules(ep, nil)
}

func foreignSurvives(b *bench) {
	web := leaf("web")
	b.modify(hns.Add, web)
	others := append(b.others(), hns.EndpointPolicy{
		Type: "OutBoundNAT", Settings: []byte(`{"Exceptions":["10.0.0.0/8"]}`),
	})
	ep := b.endpoint(others...)
	_, before := b.rules(ep)
	for _, given := range others {
		require.True(b, slices.ContainsFunc(before, func(p hns.EndpointPolicy) bool { return strings.EqualFold(p.Type, given.Type) }), "%s is shown", given.Type)
	}
	one := allowFrom("one", web)
	require.NoError(b, b.client.ReplacePolicies(b.ctx, ep, append(slices.Clone(before), hns.NewACLPolicy(one))))
	b.wantRules(ep, before, one)
	require.NoError(b, b.client.ReplacePolicies(b.ctx, ep, before))
	b.wantRules(ep, before)
}

// version reads the endpoint's version.
func (b *bench) version(endpoint string) hns.Version {
	b.Helper()
	e, err := b.client.GetEndpoint(b.ctx, endpoint)
	require.NoError(b, err)
	return e.Basis()
}

// writesHaveVersions: what was written reads back as the version that was asked
// for, whatever HNS adds to it. Without that every write would be a conflict.
func writesHaveVersions(b *bench) {
	web := leaf("web")
	b.modify(hns.Add, web)
	ep := b.endpoint(foreignBlock(), hns.EndpointPolicy{
		Type: "OutBoundNAT", Settings: []byte(`{"Exceptions":["10.0.0.0/8"]}`),
	})
	_, foreign := b.rules(ep)
	one, two := allowFrom("one", web), allowFrom("two", web)
	one.Protocols = ""
	one.LocalPorts = ""
	w := versioned.Writer{Ask: hns.Asking(b.ctx, b.client)}

	first := b.version(ep)
	added, err := w.Add(ep, first, []hns.ACL{one})
	require.NoError(b, err)
	require.NotEqual(b, first, added.Version)
	require.Equal(b, b.version(ep), added.Version)
	replaced, err := w.Replace(ep, added.Version, []hns.ACL{two})
	require.NoError(b, err)
	require.Equal(b, b.version(ep), replaced.Version)
	b.wantRules(ep, foreign, two)
	cleared, err := w.Replace(ep, replaced.Version, nil)
	require.NoError(b, err)
	require.Equal(b, first, cleared.Version, "the same state has the same version")
}

func missingEndpoint(b *bench) {
	web := leaf("web")
	b.modify(hns.Add, web)
	ep := b.endpoint()
	require.NoError(b, b.client.AddACLs(b.ctx, ep, []hns.ACL{allowFrom("one", web)}))
	b.fixture.DeleteEndpoint(b.T, ep)

	_, err := b.client.GetEndpoint(b.ctx, ep)
	b.refused(err, hns.ErrNotFound, "Endpoint/Get", hns.KindEndpoint, ep)
	require.True(b, hns.EndpointGone(err))
	err = b.client.AddACLs(b.ctx, ep, []hns.ACL{allowFrom("two", web)})
	b.refused(err, hns.ErrNotFound, "ACL/Add", hns.KindEndpoint, ep)
	require.True(b, hns.EndpointGone(err))
	err = b.client.ReplacePolicies(b.ctx, ep, nil)
	b.refused(err, hns.ErrNotFound, "ACL/Update", hns.KindEndpoint, ep)
	require.True(b, hns.EndpointGone(err))
	b.modify(hns.Remove, web)
}

func severalAddresses(b *bench) {
	addrs := []netip.Addr{podAddr, podAddr.Next()}
	ep := b.create("endpoint with two addresses", Endpoint{Addrs: addrs})
	e, err := b.client.GetEndpoint(b.ctx, ep)
	require.NoError(b, err)
	require.ElementsMatch(b, addrs, e.Addrs)
}

func gaveUp(b *bench) {
	web := leaf("web", "10.90.0.4")
	b.modify(hns.Add, web)
	ep := b.endpoint()
	ctx, cancel := context.WithCancel(b.ctx)
	cancel()

	_, err := b.client.Network(ctx)
	require.ErrorIs(b, err, hns.ErrUnavailable)
	_, err = b.client.EndpointIDs(ctx)
	require.ErrorIs(b, err, hns.ErrUnavailable)
	_, err = b.client.GetEndpoint(ctx, ep)
	b.refused(err, hns.ErrUnavailable, "Endpoint/Get", hns.KindEndpoint, ep)
	err = b.client.ModifySets(ctx, hns.Add, []hns.SetPolicy{leaf("new")})
	b.refused(err, hns.ErrUnavailable, "SetPolicy/Add", hns.KindSet, leaf("new").ID)
	err = b.client.AddACLs(ctx, ep, []hns.ACL{allowFrom("one", web)})
	b.refused(err, hns.ErrUnavailable, "ACL/Add", hns.KindEndpoint, ep)
	err = b.client.ReplacePolicies(ctx, ep, []hns.EndpointPolicy{hns.NewACLPolicy(allowFrom("one", web))})
	b.refused(err, hns.ErrUnavailable, "ACL/Update", hns.KindEndpoint, ep)
	b.wantSets(web)
	b.wantRules(ep, nil)
}

// foreignBlock is a rule as a CNI sets it.
func foreignBlock() hns.EndpointPolicy {
	return hns.EndpointPolicy{Type: hns.PolicyTypeACL, Settings: []byte(
		`{"Protocols":"6","Action":"Block","Direction":"Out","RemoteAddresses":"168.63.129.16/32","RemotePorts":"80","RuleType":"Switch","Priority":200}`)}
}

// wantRules checks what an endpoint has, in any order. Besides it may have what HNS
// itself puts on endpoints.
func (b *bench) wantRules(endpoint string, foreign []hns.EndpointPolicy, ours ...hns.ACL) {
	b.Helper()
	gotOurs, gotForeign := b.rules(endpoint)
	require.ElementsMatch(b, ours, gotOurs)
	missing, more := differ(foreign, gotForeign)
	require.Empty(b, missing, "policies of others that are gone")
	if len(more) > 0 {
		b.learn()
		more = slices.DeleteFunc(more, b.isDefault)
	}
	require.Empty(b, more, "policies of others that nobody wrote")
}

// differ compares policies, whose order means nothing, byte for byte.
func differ(want, got []hns.EndpointPolicy) (missing, more []hns.EndpointPolicy) {
	more = slices.Clone(got)
	for _, w := range want {
		at := slices.IndexFunc(more, w.Equal)
		if at < 0 {
			missing = append(missing, w)
			continue
		}
		more = slices.Delete(more, at, at+1)
	}
	return missing, more
}

// learn looks once what HNS puts on an endpoint that is made with no policies.
func (b *bench) learn() {
	b.Helper()
	if b.learned {
		return
	}
	b.learned = true
	_, b.defaults = b.rules(b.endpoint())
	b.Logf("HNS itself puts %d policies on an endpoint", len(b.defaults))
}

// isDefault reports whether a policy is one that HNS itself puts on an endpoint. Those that are
// no rules may tell of the endpoint, so they count by their type.
func (b *bench) isDefault(p hns.EndpointPolicy) bool {
	return slices.ContainsFunc(b.defaults, func(d hns.EndpointPolicy) bool {
		if strings.EqualFold(d.Type, hns.PolicyTypeACL) {
			return d.Equal(p)
		}
		return d.Type == p.Type
	})
}
