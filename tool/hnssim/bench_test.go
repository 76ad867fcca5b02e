package hnssim

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
)

// bigNode has 110 endpoints with 500 rules each, and 5,000 pods in 200 sets.
func bigNode(b *testing.B) (*Sim, []hns.EndpointPolicy) {
	s := New(Options{Foreign: DefaultForeign()})
	var sets []hns.SetPolicy
	for i := range 200 {
		p := leaf(fmt.Sprintf("ns-%d", i))
		for pod := range 5000 {
			if pod%200 == i || i == 0 {
				p.Values = append(p.Values, podAddr(pod).String())
			}
		}
		sets = append(sets, p)
	}
	require.NoError(b, s.ModifySets(b.Context(), hns.Add, sets))
	policies := DefaultForeign()
	for i := range 500 {
		policies = append(policies, hns.NewACLPolicy(allow(func(a *hns.ACL) {
			a.ID = fmt.Sprintf("azure-acl-x.p%d", i)
			a.LocalAddresses = derivedID("ns-0") + "," + derivedID(fmt.Sprintf("ns-%d", i%200))
			a.LocalPorts = fmt.Sprint(i + 1)
		})))
	}
	for i := range 110 {
		id := fmt.Sprintf("ep-%d", i)
		require.NoError(b, s.CreateEndpoint(NewEndpoint{ID: id, Addrs: []netip.Addr{podAddr(i)}}))
		require.NoError(b, s.ReplacePolicies(b.Context(), id, policies))
	}
	return s, policies
}

func podAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 1, byte(i / 250), byte(i % 250)}) }

func BenchmarkTrace(b *testing.B) {
	s, _ := bigNode(b)
	p := Packet{Src: podAddr(4321), Dst: podAddr(7), Protocol: 6, DstPort: 322}
	for b.Loop() {
		v, err := s.Trace("ep-7", hns.In, p)
		require.NoError(b, err)
		require.True(b, v.Allowed)
	}
}

func BenchmarkReplacePolicies(b *testing.B) {
	s, policies := bigNode(b)
	for b.Loop() {
		require.NoError(b, s.ReplacePolicies(b.Context(), "ep-7", policies))
	}
}

func BenchmarkUpdateBigSet(b *testing.B) {
	s, _ := bigNode(b)
	big := s.names["ns-0"].SetPolicy
	for b.Loop() {
		require.NoError(b, s.ModifySets(b.Context(), hns.Update, []hns.SetPolicy{big}))
	}
}

func BenchmarkRemove(b *testing.B) {
	s, _ := bigNode(b)
	p := []hns.SetPolicy{leaf("new")}
	for b.Loop() {
		require.NoError(b, s.ModifySets(b.Context(), hns.Add, p))
		require.NoError(b, s.ModifySets(b.Context(), hns.Remove, p))
	}
}
