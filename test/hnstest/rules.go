package hnstest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/versioned"
)

// accepts returns the question whether HNS accepts a rule, returns it with the same meaning, and accepts
// the returned rule. The sets web and ns exist.
func accepts(what, assumptions, source, ifWrong string, change func(*hns.ACL)) Question {
	return Question{"a rule may have " + what, assumptions, source, ifWrong, OwnNetwork, func(b *bench) {
		b.modify(hns.Add, leaf("web"), leaf("ns"))
		ep := b.endpoint()
		rule := allowFrom("one")
		change(&rule)
		require.NoError(b, b.add(ep, rule))
		b.wantRules(ep, nil, rule.Canonical())
		e, err := b.get(ep)
		require.NoError(b, err)
		require.NoError(b, b.replace(ep, e.Policies), "what was read can be written")
		b.wantRules(ep, nil, rule.Canonical())
	}}
}

func addAppends(b *bench) {
	ep, web, foreign := b.pod(foreignBlock)
	one, two, three := allowFrom("one", web), allowFrom("two", web), allowFrom("three", web)
	require.NoError(b, b.add(ep, one))
	require.NoError(b, b.add(ep, two, three))
	require.NoError(b, b.add(ep, one))
	b.wantRules(ep, foreign, one, two, three, one)
}

// badRule returns a rule that HNS rejects with 0x803B000D (hcsshim#1059).
func badRule() hns.ACL {
	bad := allowFrom("bad")
	bad.RemoteAddresses = "Any"
	return bad
}

// rejectsRules tests that HNS rejects a request with rules because of an object of a kind, and changes
// nothing.
func rejectsRules(class error, kind, id string, rules ...hns.ACL) func(*bench) {
	return func(b *bench) {
		ep, web, foreign := b.pod(foreignBlock)
		one := allowFrom("one", web)
		require.NoError(b, b.add(ep, one))
		b.rejected(b.add(ep, rules...), class, hns.OpACLAdd, kind, id)
		b.rejected(b.replace(ep, nil, rules...), class, hns.OpACLUpdate, kind, id)
		b.wantRules(ep, foreign, one)
	}
}

func replaceReplaces(b *bench) {
	ep, web, _ := b.pod(foreignBlock)
	require.NoError(b, b.add(ep, allowFrom("one", web)))
	two := allowFrom("two", web)
	require.NoError(b, b.replace(ep, nil, two))
	b.wantRules(ep, nil, two)
	require.NoError(b, b.replace(ep, nil), "an empty list clears the endpoint")
	b.wantRules(ep, nil)
}

func foreignSurvives(b *bench) {
	others := []hns.EndpointPolicy{foreignBlock, outBoundNAT}
	ep, web, before := b.pod(others...)
	for _, given := range others {
		require.True(b, slices.ContainsFunc(before, func(p hns.EndpointPolicy) bool { return strings.EqualFold(p.Type, given.Type) }), "%s is shown", given.Type)
	}
	one := allowFrom("one", web)
	require.NoError(b, b.replace(ep, before, one))
	b.wantRules(ep, before, one)
	require.NoError(b, b.replace(ep, before))
	b.wantRules(ep, before)
}

// writesHaveVersions tests that written policies read back with the requested version, whatever HNS adds to
// them. Otherwise every write would be a conflict.
func writesHaveVersions(b *bench) {
	ep, web, foreign := b.pod(foreignBlock, outBoundNAT)
	one, two := allowFrom("one", web), allowFrom("two", web)
	one.Protocols, one.LocalPorts = "", ""
	w := versioned.Writer{Ask: b.do}
	version := func() hns.Version {
		e, err := b.get(ep)
		require.NoError(b, err)
		return e.Basis()
	}
	first := version()
	added, err := w.Add(ep, first, []hns.ACL{one})
	require.NoError(b, err)
	require.NotEqual(b, first, added.Version)
	require.Equal(b, version(), added.Version)
	replaced, err := w.Replace(ep, added.Version, []hns.ACL{two})
	require.NoError(b, err)
	require.Equal(b, version(), replaced.Version)
	b.wantRules(ep, foreign, two)
	cleared, err := w.Replace(ep, replaced.Version, nil)
	require.NoError(b, err)
	require.Equal(b, first, cleared.Version, "the same state has the same version")
}

// manyRules writes n rules for remote addresses to an endpoint, in one request.
func manyRules(n int, remote string) func(*bench) {
	return func(b *bench) {
		ep := b.endpoint()
		var rules []hns.ACL
		for i := range n {
			a := allowFrom(fmt.Sprint(i))
			a.RemoteAddresses = remote
			rules = append(rules, a)
		}
		require.NoError(b, b.replace(ep, nil, rules...))
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

// wantRules checks the policies of an endpoint, in any order. It ignores policies that HNS itself puts on
// endpoints.
func (b *bench) wantRules(endpoint string, foreign []hns.EndpointPolicy, ours ...hns.ACL) {
	gotOurs, more := b.rules(endpoint)
	require.ElementsMatch(b, ours, gotOurs)
	for _, want := range foreign {
		at := slices.IndexFunc(more, func(p hns.EndpointPolicy) bool { return equal(p, want) })
		require.GreaterOrEqual(b, at, 0, "a policy of others is gone: %s", want)
		more = slices.Delete(more, at, at+1)
	}
	if len(more) > 0 && b.defaults == nil {
		_, b.defaults = b.rules(b.endpoint())
	}
	require.Empty(b, slices.DeleteFunc(more, b.isDefault), "policies of others that nobody wrote")
}

// isDefault reports whether a policy is one that HNS itself puts on an endpoint. It compares only the types
// of policies other than rules, as their settings may depend on the endpoint.
func (b *bench) isDefault(p hns.EndpointPolicy) bool {
	return slices.ContainsFunc(b.defaults, func(d hns.EndpointPolicy) bool {
		return equal(d, p) || d.Type == p.Type && !strings.EqualFold(d.Type, hns.PolicyTypeACL)
	})
}

// equal reports whether two policies are the same, byte for byte.
func equal(a, b hns.EndpointPolicy) bool {
	return a.Type == b.Type && bytes.Equal(a.Settings, b.Settings)
}
