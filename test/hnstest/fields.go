package hnstest

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
)

// takes returns the question whether HNS takes a rule, and shows it with the same meaning.
func takes(what, assumptions, source, ifWrong string, change func(*hns.ACL)) Question {
	return Question{"a rule may have " + what, assumptions, source, ifWrong, OwnNetwork, func(b *bench) {
		ep := b.endpoint()
		rule := allowFrom("one")
		change(&rule)
		require.NoError(b, b.client.AddACLs(b.ctx, ep, []hns.ACL{rule}))
		b.wantRules(ep, nil, rule.Canonical())
	}}
}

// refuses returns the question whether HNS refuses a rule for what it contains.
func refuses(what, assumptions, source, ifWrong string, change func(*hns.ACL)) Question {
	return Question{"a rule with " + what + " is refused", assumptions, source, ifWrong, OwnNetwork, func(b *bench) {
		ep := b.endpoint()
		rule := allowFrom("one")
		change(&rule)
		err := b.client.AddACLs(b.ctx, ep, []hns.ACL{rule})
		b.refused(err, hns.ErrInvalid, hns.OpACLAdd, hns.KindACL, rule.ID)
		b.wantRules(ep, nil)
	}}
}

func setAndAddress(b *bench) {
	web := leaf("web")
	b.modify(hns.Add, web)
	ep := b.endpoint()
	mixed := allowFrom("one", web)
	mixed.LocalAddresses += ",10.9.0.1"
	err := b.client.AddACLs(b.ctx, ep, []hns.ACL{mixed})
	require.Error(b, err)
	require.Equal(b, hns.RefusesContent, hns.LookupCode(hns.CodeOf(err)).Class, "%v", err)
	b.wantRules(ep, nil)
}

func addKeepsTwice(b *bench) {
	ep := b.endpoint()
	one := allowFrom("one")
	for range 2 {
		require.NoError(b, b.client.AddACLs(b.ctx, ep, []hns.ACL{one}))
	}
	b.wantRules(ep, nil, one, one)
}

func listOfList(b *bench) {
	web := leaf("web")
	inner, outer := list("inner", web), list("outer", list("inner"))
	b.modify(hns.Add, web)
	b.modify(hns.Add, inner)
	err := b.client.ModifySets(b.ctx, hns.Add, []hns.SetPolicy{outer})
	b.refused(err, hns.ErrInvalid, hns.OpSets(hns.Add), hns.KindSet, outer.ID)
	b.wantSets(web, inner)
}

func sameName(b *bench) {
	web, other := leaf("web"), leaf("other")
	b.modify(hns.Add, web)
	other.Name = web.Name
	err := b.client.ModifySets(b.ctx, hns.Add, []hns.SetPolicy{other})
	b.refused(err, hns.ErrInvalid, hns.OpSets(hns.Add), hns.KindSet, other.ID)
	web.Name = "hnstest-renamed"
	err = b.client.ModifySets(b.ctx, hns.Update, []hns.SetPolicy{web})
	b.refused(err, hns.ErrInvalid, hns.OpSets(hns.Update), hns.KindSet, web.ID)
	b.wantSets(leaf("web"))
}

// detachedRefuses asks for the code of an endpoint that takes no rules, whatever they are.
func detachedRefuses(b *bench) {
	ep := b.create("endpoint that is attached to nothing", Endpoint{Addrs: []netip.Addr{b.addr()}, Detached: true})
	err := b.client.AddACLs(b.ctx, ep, []hns.ACL{allowFrom("one")})
	require.Error(b, err)
	require.Equal(b, hns.RefusesEndpoint, hns.LookupCode(hns.CodeOf(err)).Class, "%v", err)
	b.wantRules(ep, nil)
}

// everyLength lists a block of each length, from one bit to a host.
func everyLength() string {
	var out []string
	for bits := 1; bits <= 32; bits++ {
		out = append(out, fmt.Sprintf("128.0.0.0/%d", bits))
	}
	return strings.Join(out, ",")
}

// manyAddresses lists n addresses.
func manyAddresses(n int) string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("10.9.%d.%d", i/250, 1+i%250)
	}
	return strings.Join(out, ",")
}

// everyEndpointReads reads all endpoints as the agent does. One may go meanwhile.
func everyEndpointReads(b *bench) {
	for _, id := range b.enumerated() {
		e, err := b.client.GetEndpoint(b.ctx, id)
		if hns.EndpointGone(err) || errors.Is(err, hns.ErrElsewhere) {
			continue
		}
		require.NoError(b, err)
		for _, p := range e.Policies {
			require.NotContains(b, []string{"TierAcl", "NetworkACL"}, p.Type, "nobody knows what it does to our rules")
		}
	}
}
