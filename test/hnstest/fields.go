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

func addKeepsTwice(b *bench) {
	ep := b.endpoint()
	one := allowFrom("one")
	for range 2 {
		require.NoError(b, b.client.AddACLs(b.ctx, ep, []hns.ACL{one}))
	}
	b.wantRules(ep, nil, one, one)
}

// detachedRefuses asks for the code of an endpoint that takes no rules, whatever they are.
func detachedRefuses(b *bench) {
	ep := b.create("endpoint that is attached to nothing", Endpoint{Addrs: []netip.Addr{b.addr()}, Detached: true})
	err := b.client.AddACLs(b.ctx, ep, []hns.ACL{allowFrom("one")})
	require.Error(b, err)
	require.Equal(b, hns.RefusesEndpoint, hns.LookupCode(hns.CodeOf(err)).Class, "%v", err)
	b.wantRules(ep, nil)
}

// manyRules writes n rules for remote addresses to an endpoint, in one request.
func manyRules(n int, remote string) func(*bench) {
	return func(b *bench) {
		ep := b.endpoint()
		var policies []hns.EndpointPolicy
		for i := range n {
			a := allowFrom(fmt.Sprint(i))
			a.RemoteAddresses = remote
			policies = append(policies, hns.NewACLPolicy(a))
		}
		require.NoError(b, b.client.ReplacePolicies(b.ctx, ep, policies))
		got, _ := b.rules(ep)
		require.Len(b, got, n)
	}
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
	if _, err := b.client.Network(b.ctx); errors.Is(err, hns.ErrNotFound) {
		b.Skip("this node has no network of pods")
	}
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
