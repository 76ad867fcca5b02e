package main

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

func TestProbes(t *testing.T) {
	sim := hnsfault.New(hnsfault.Options{Foreign: hnssim.DefaultForeign()})
	for id, addr := range map[string]string{"src": "10.0.0.4", "dst": "10.0.0.5"} {
		require.NoError(t, sim.CreateEndpoint(hnssim.NewEndpoint{ID: id, Addrs: []netip.Addr{netip.MustParseAddr(addr)}}))
	}
	p, err := parsePacket("10.0.0.4->10.0.0.5:80/TCP")
	require.NoError(t, err)
	all := probes(sim, []hnssim.Packet{p})
	require.ElementsMatch(t, []hnsfault.Probe{
		{Endpoint: "src", Direction: hns.Out, Packet: p}, {Endpoint: "dst", Direction: hns.In, Packet: p},
	}, all)
	sim.Watch(all...)
	block := hns.ACL{ID: "azure-acl-npm-block-in", Action: hns.Block, Direction: hns.In, RuleType: hns.Switch, Priority: 3000}
	require.NoError(t, sim.AddACLs(t.Context(), "dst", []hns.ACL{block}))
	var text strings.Builder
	writeTransitions(&text, sim)
	require.Regexp(t, `^\d\d:\d\d:\d\d\.\d{3} write 1 ACL/Add dst: In 10\.0\.0\.4->10\.0\.0\.5:80/6 denied, was allowed\n$`, text.String())
}
