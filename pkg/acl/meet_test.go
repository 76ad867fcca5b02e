package acl_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/policy"
)

// TestMeetBlocks: what a Pass of blocks and a rule of blocks share is exact, and written
// with the fewest prefixes.
func TestMeetBlocks(t *testing.T) {
	const world = "10.0.0.0/27" // the prefixes are drawn in it
	draw := func(t *rapid.T) []netip.Prefix {
		var out []netip.Prefix
		for range rapid.IntRange(1, 6).Draw(t, "blocks") {
			addr := netip.AddrFrom4([4]byte{10, 0, 0, byte(rapid.IntRange(0, 31).Draw(t, "address"))})
			out = append(out, netip.PrefixFrom(addr, rapid.IntRange(27, 32).Draw(t, "bits")).Masked())
		}
		return policy.InBlocks(out).Blocks
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := draw(t), draw(t)
		admin := acl.Source{Tier: policy.Admin, Name: "p"}
		got := render([]acl.Rule{
			{Action: policy.Pass, Atoms: []acl.Atom{{Blocks: a}}, From: admin}, {Action: policy.Deny, Atoms: []acl.Atom{{}}, From: admin},
			{Action: policy.Accept, Atoms: []acl.Atom{{Blocks: b}}, From: acl.Source{Tier: policy.Baseline}},
		})
		var both []netip.Prefix
		if !got[0].IsBlock() {
			for text := range strings.SplitSeq(got[0].RemoteAddresses, ",") {
				if !strings.Contains(text, "/") {
					text += "/32"
				}
				both = append(both, netip.MustParsePrefix(text))
			}
		}
		if len(both) > 0 {
			require.Equal(t, policy.InBlocks(both).Blocks, both, "not the fewest of %v and %v", a, b)
		}
		for addr := netip.MustParsePrefix(world).Addr(); netip.MustParsePrefix(world).Contains(addr); addr = addr.Next() {
			require.Equal(t, contain(a, addr) && contain(b, addr), contain(both, addr), "%s in %v and %v: %v", addr, a, b, both)
		}
	})
}

func contain(blocks []netip.Prefix, addr netip.Addr) bool {
	for _, b := range blocks {
		if b.Contains(addr) {
			return true
		}
	}
	return false
}

// TestDisjoint: sets of which the names say that they share no pod make no ACL, and no
// Pass is needed for them.
func TestDisjoint(t *testing.T) {
	passed := func(pass, accept string) bool {
		return strings.Contains(textOf(render(rulesOf(t, "Pass p: "+pass+"\nAccept a: "+accept, isolated))), "via p")
	}
	for pass, accept := range map[string]string{
		"ns-x": "ns-y", "podlabel-app:a": "podlabel-app:b", "nestedlabel-app:a:b": "nestedlabel-app:c:d",
		"podlabel-app:c": "nestedlabel-app:a:b", "nslabel-team:a": "nslabel-team:b", "ns-x podlabel-app:a": "podlabel-app:b",
	} {
		require.False(t, passed(pass, accept), "%s %s", pass, accept)
	}
	for pass, accept := range map[string]string{
		"ns-x": "podlabel-app:x", "podlabel-app": "podlabel-app:b", "podlabel-app:a": "podlabel-tier:b", "nestedlabel-app:a:b": "nestedlabel-app:b:c",
		"nslabel-{team!=a}": "nslabel-team:a", "nslabel-all-namespaces": "nslabel-team:a", "podlabel-team:a": "nslabel-team:b", "nodes-role=a": "nodes-role=b",
	} {
		require.True(t, passed(pass, accept), "%s %s", pass, accept)
	}
}
