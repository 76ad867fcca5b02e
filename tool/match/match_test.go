package match_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/match"
)

// The oracle compares two tracers on every form of rule; this is what a
// rule of unknown origin may be besides.
func TestParseRuleRefuses(t *testing.T) {
	known := &match.Set{Type: hns.IPSet}
	find := func(id string) *match.Set {
		if id == "azure-npm-1" {
			return known
		}
		return nil
	}
	for name, a := range map[string]hns.ACL{
		"protocol":     {Protocols: "GRE"},
		"protocols":    {Protocols: "6,17"},
		"local ports":  {Protocols: "6", LocalPorts: "80-79"},
		"remote ports": {Protocols: "6", RemotePorts: "0"},
		"local set":    {LocalAddresses: "azure-npm-2"},
		"remote text":  {RemoteAddresses: "azure-npm-1,10.0.0.300"},
	} {
		_, err := match.ParseRule(a, find)
		require.ErrorIs(t, err, hns.ErrInvalid, name)
	}
	r, err := match.ParseRule(hns.ACL{Protocols: "256", Direction: hns.Out, LocalAddresses: "azure-npm-1", RemotePorts: "7,9-10"}, find)
	require.NoError(t, err)
	require.Equal(t, &match.Rule{
		ACL: hns.ACL{
			Direction: hns.Out, LocalAddresses: "azure-npm-1", RemotePorts: "7,9-10", RuleType: hns.Switch,
		},
		Protocol: match.EveryProtocol, Local: match.Addresses{Sets: []*match.Set{known}}, Ports: match.Ports{{7, 7}, {9, 10}},
	}, r)
}

// TestParseRuleReadsEverySpelling: what is canonical is what the strict readers
// take.
func TestParseRuleReadsEverySpelling(t *testing.T) {
	known := &match.Set{Type: hns.IPSet}
	find := func(id string) *match.Set {
		if id == "azure-npm-1" {
			return known
		}
		return nil
	}
	r, err := match.ParseRule(hns.ACL{
		ID: "AZURE-ACL-x", Protocols: "tcp", Action: "allow", Direction: "IN", LocalAddresses: "Azure-NPM-1",
		RemoteAddresses: "10.0.0.9/255.255.255.254, 10.0.0.10", LocalPorts: "81,80", RemotePorts: "*", RuleType: "switch",
	}, find)
	require.NoError(t, err)
	require.Equal(t, &match.Rule{
		ACL: hns.ACL{
			ID: "azure-acl-x", Protocols: "6", Action: hns.Allow, Direction: hns.In, LocalAddresses: "azure-npm-1",
			RemoteAddresses: "10.0.0.8/31,10.0.0.10", LocalPorts: "80-81", RuleType: hns.Switch,
		},
		Protocol: 6, Local: match.Addresses{Sets: []*match.Set{known}},
		Remote: match.Addresses{Literals: match.Spans{{First: 0x0a000008, Last: 0x0a00000a}}}, Ports: match.Ports{{80, 81}},
	}, r)
}

// TestSpans checks the search against a look at every block.
func TestSpans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		block := rapid.Custom(func(t *rapid.T) netip.Prefix {
			a := netip.AddrFrom4([4]byte{byte(rapid.SampledFrom([]int{0, 10, 255}).Draw(t, "a")), 0, 0, rapid.Byte().Draw(t, "d")})
			return netip.PrefixFrom(a, rapid.SampledFrom([]int{0, 8, 24, 27, 30, 31, 32}).Draw(t, "bits")).Masked()
		})
		blocks := rapid.SliceOfN(block, 0, 6).Draw(t, "blocks")
		var all match.Spans
		for _, b := range blocks {
			sp, ok := match.ParseSpan(b.String())
			require.True(t, ok)
			all = append(all, sp)
		}
		all = all.Sorted()
		for i := 1; i < len(all); i++ {
			require.Greater(t, all[i].First, all[i-1].Last+1)
		}
		for range 20 {
			a := netip.AddrFrom4([4]byte{byte(rapid.SampledFrom([]int{0, 10, 255}).Draw(t, "a")), 0, 0, rapid.Byte().Draw(t, "d")})
			want := false
			for _, b := range blocks {
				want = want || b.Contains(a)
			}
			require.Equal(t, want, all.Contain(a), "%v in %v", a, blocks)
		}
	})
}
