package hnstest

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
)

// manySets adds 4096 sets, 512 in a request.
func manySets(b *bench) {
	var all []hns.SetPolicy
	for len(all) < 4096 {
		from := len(all)
		for i := range 512 {
			all = append(all, leaf(fmt.Sprint(from+i), "10.90.0.4"))
		}
		b.modify(hns.Add, all[from:]...)
	}
	b.wantSets(all...)
}

func largeSets(b *bench) {
	big := leaf("big")
	for i := range 8192 {
		big.Values = append(big.Values, fmt.Sprintf("10.100.%d.%d", i/250, i%250))
	}
	sets := []hns.SetPolicy{big}
	for i := range 1024 {
		sets = append(sets, leaf(fmt.Sprint(i)))
	}
	all := list("all", sets[1:]...)
	b.modify(hns.Add, sets...)
	b.modify(hns.Add, all)
	b.wantSets(append(sets, all)...)
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
