package acl_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

const (
	isolated = "Accept web: ns-x TCP/80\nDeny isolate: *\n"
	open     = "Accept default: *\n"
)

// TestTiers has the cases of ADR 24.
func TestTiers(t *testing.T) {
	tests := []struct{ name, admin, tail, want string }{
		{
			"nothing but the default", "", open,
			"allow tail 0 * by default",
		},
		{
			"a tail without an end is closed", "", "Accept web: ns-x",
			"allow tail 0 ns-x by web\nblock tail 1 *",
		},
		{
			"accept, deny and the NetworkPolicies", "Accept a: ns-y\nDeny d: ns-z TCP/80", isolated,
			`allow 0 ns-y by a
			block 1 deny-ns-z TCP/80 by d
			block 1 deny-doubt-all TCP/80 by d
			allow tail 0 ns-x TCP/80 by web
			block tail 1 * by isolate`,
		},
		{
			"one number for each run, and a rule without atoms is none",
			"Deny a: 10.0.0.0/8\nDeny b: 11.0.0.0/8\nAccept none: -\nDeny c: 12.0.0.0/8\nAccept e: 13.0.0.0/8\nDeny f: 14.0.0.0/8", open,
			`block 0 10.0.0.0/8 by a
			block 0 11.0.0.0/8 by b
			block 0 12.0.0.0/8 by c
			allow 1 13.0.0.0/8 by e
			block 2 14.0.0.0/8 by f
			allow tail 0 * by default`,
		},
		{
			"after a rule for everything nothing is reached", "Accept a: ns-x\nDeny all: ns-y | *\nAccept b: *", open,
			`allow 0 ns-x by a
			block 1 * by all`,
		},
		{
			"a Pass of everything cuts the tier", "Deny d: 10.0.0.0/8\nPass p: ns-x | *\nDeny e: *", isolated,
			`block 0 10.0.0.0/8 by d
			allow tail 0 ns-x TCP/80 by web via p
			block tail 1 * by isolate via p`,
		},
		{
			"a Pass that no later rule overlaps goes", "Pass p: 10.0.0.0/8 TCP/80\nDeny d: 10.0.0.0/8 TCP/81 | 10.0.0.0/8 UDP/80 | 11.0.0.0/8", open,
			`block 0 10.0.0.0/8 TCP/81 by d
			block 0 10.0.0.0/8 UDP/80 by d
			block 0 11.0.0.0/8 by d
			allow tail 0 * by default`,
		},
		{
			"a Pass before other Passes only goes", "Pass p: ns-x\nPass q: *", open,
			"allow tail 0 * by default via q",
		},
		{
			"the ports of a Pass count", "Pass p: 10.0.0.0/8 TCP/80\nDeny d: 10.0.0.0/8 TCP/1-100", open,
			`allow 0 10.0.0.0/8 TCP/80 by default via p
			block 1 10.0.0.0/8 TCP/1-100 by d
			allow tail 0 * by default`,
		},
		{
			"a Pass before the isolation of NetworkPolicies", "Pass p: podlabel-app:a\nAccept a: *", isolated,
			`allow 0 podlabel-app:a ns-x TCP/80 by web via p
			block 1 deny-podlabel-app:a by isolate via p
			block 1 deny-doubt-all by isolate via p
			allow 2 * by a`,
		},
		{
			"a Pass is met with each rule of the tail", "Pass p: ns-x TCP/1-100 | 10.0.0.0/8\nDeny d: *",
			"Accept b1: podlabel-app:a TCP/80-200 | ns-y\nDeny b2: 10.1.0.0/16 | 0.0.0.0/1 UDP/53\nPass b3: TCP/9\nDeny b4: *",
			`allow 0 ns-x podlabel-app:a TCP/80-100 by b1 via p
			allow 0 podlabel-app:a inblocks-10.0.0.0/8 TCP/80-200 by b1 via p
			allow 0 ns-y inblocks-10.0.0.0/8 by b1 via p
			block 1 deny-ns-x deny-inblocks-10.1.0.0/16 TCP/1-100 by b2 via p
			block 1 deny-doubt-all deny-inblocks-10.1.0.0/16 TCP/1-100 by b2 via p
			block 1 10.1.0.0/16 by b2 via p
			block 1 10.0.0.0/8 UDP/53 by b2 via p
			allow 2 ns-x TCP/9 via p b3
			allow 2 10.0.0.0/8 TCP/9 via p b3
			block 3 deny-ns-x TCP/1-100 by b4 via p
			block 3 deny-doubt-all TCP/1-100 by b4 via p
			block 3 10.0.0.0/8 by b4 via p
			block 3 * by d`,
		},
		{
			"only the atoms that overlap are passed on", "Pass p: ns-x | ns-y TCP/80 | 10.0.0.0/8 TCP/80\nDeny d: ns-x UDP/*", open,
			`allow 0 ns-x by default via p
			block 1 deny-ns-x UDP/* by d
			block 1 deny-doubt-all UDP/* by d
			allow tail 0 * by default`,
		},
		{
			"a Pass of Baseline allows", "", "Pass p: ns-x\nDeny d: *",
			"allow tail 0 ns-x via p\nblock tail 1 * by d",
		},
		{
			"what the tail decided of a Pass goes no further", "Pass p: ns-x TCP/80 | ns-x\nDeny d: *", "Accept web: ns-x TCP/*\nDeny isolate: *",
			`allow 0 ns-x TCP/80 by web via p
			allow 0 ns-x TCP/* by web via p
			block 1 deny-ns-x by isolate via p
			block 1 deny-doubt-all by isolate via p
			block 1 * by d`,
		},
		{
			"equal atoms of a run are one", "Deny a: ns-x TCP/80 | ns-x podlabel-app:a | podlabel-app:a ns-x\nDeny b: ns-x TCP/80\nAccept c: 10.0.0.0/8\nDeny d: ns-x TCP/80", open,
			`block 0 deny-ns-x TCP/80 by a
			block 0 deny-doubt-all TCP/80 by a
			block 0 deny-ns-x deny-podlabel-app:a by a
			block 0 deny-doubt-all by a
			allow 1 10.0.0.0/8 by c
			block 2 deny-ns-x TCP/80 by d
			block 2 deny-doubt-all TCP/80 by d
			allow tail 0 * by default`,
		},
		{
			"nodes are in no doubt", "Deny d: nodes-role=worker | nodes-role=worker ns-x", open,
			`block 0 deny-nodes-role=worker by d
			block 0 deny-nodes-role=worker deny-ns-x by d
			block 0 deny-doubt-all deny-nodes-role=worker by d
			allow tail 0 * by default`,
		},
		{
			"what may be is blocked and never allowed", "Accept a: deny-doubt-all TCP/*\nPass p: deny-doubt-all TCP/* | deny-ns-x\nDeny d: *", "Accept web: *",
			"block 0 * by d",
		},
		{
			"what may be is passed to what blocks", "Pass p: deny-doubt-all TCP/*\nAccept a: *", "Accept web: TCP/80 | deny-doubt-all TCP/*\nDeny isolate: *",
			`block 0 deny-doubt-all TCP/* by isolate via p
			allow 1 * by a`,
		},
		{
			"sets of other values share no pod", "Pass p: ns-x | podlabel-app:a | nslabel-team:a\nDeny d: ns-y | nestedlabel-app:b:c | nslabel-team:b", open,
			`allow 0 ns-x by default via p
			allow 0 podlabel-app:a by default via p
			allow 0 nslabel-team:a by default via p
			block 1 deny-ns-y by d
			block 1 deny-doubt-all by d
			block 1 deny-nestedlabel-app:b:c by d
			block 1 deny-nslabel-team:b by d
			allow tail 0 * by default`,
		},
		{
			"all addresses are everyone", "Pass p: ns-x\nDeny d: 0.0.0.0/0", open,
			`allow 0 ns-x by default via p
			block 1 0.0.0.0/0 by d`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(trimmed(tt.want), textOf(render(rulesOf(t, tt.admin, tt.tail)))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestTiersLimits: a list over its limit says so, and one that is at it is whole.
func TestTiersLimits(t *testing.T) {
	rules := rulesOf(t, "Pass p: 10.0.0.0/8\nPass q: 11.0.0.0/8 | 12.0.0.0/8\nPass r: 1.0.0.0/8\nAccept a: 10.0.0.0/7",
		"Accept web: TCP/80\nAccept dns: UDP/53\nDeny isolate: *")
	whole := render(rules)
	require.Len(t, whole, 10)
	for limit := range 12 {
		got, fits := acl.Render(rules, acl.Options{ID: ipsets.Name.String, Limit: limit})
		require.Equal(t, limit >= 10, fits, limit)
		require.True(t, !fits || cmp.Equal(whole, got, cmp.AllowUnexported(ipsets.Name{})))
	}
}

// TestWorkIsBounded: pairs of atoms that share no packet cost no ACLs, so their number is bounded.
func TestWorkIsBounded(t *testing.T) {
	var admin, tail strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&admin, "Pass p%d: 10.0.%d.%d/32\n", i, i/250, i%250)
		fmt.Fprintf(&tail, "Accept t%d: 11.0.%d.%d/32\n", i, i/250, i%250)
	}
	_, fits := acl.Render(rulesOf(t, admin.String()+"Accept a: *", tail.String()), acl.Options{ID: ipsets.Name.String, Limit: 10_000})
	require.False(t, fits)
}

// TestInside: an ACL with sets and blocks names one set more, of its own polarity.
func TestInside(t *testing.T) {
	require.Equal(t, trimmed(`allow 0 ns-x inblocks-10.0.0.0/8,12.0.0.0/8 by a
		block 1 deny-ns-x deny-inblocks-10.0.0.0/8 by d
		block 1 deny-doubt-all deny-inblocks-10.0.0.0/8 by d
		block 1 deny-ns-x by e
		block 1 deny-doubt-all by e
		block 1 10.0.0.0/8 by f
		block tail 0 *`),
		textOf(render(rulesOf(t, "Accept a: ns-x 10.0.0.0/8 12.0.0.0/8\nDeny d: ns-x 10.0.0.0/8\nDeny e: ns-x\nDeny f: 10.0.0.0/8", ""))))
}

// TestOneTier: a direction without a rule of the Admin or the Baseline tier has the numbers of
// NetworkPolicies, and the other one of the same endpoint has its tiers.
func TestOneTier(t *testing.T) {
	rules := append(tierOf(t, policy.Namespaced, "Accept web: ns-x TCP/80\nAccept all: *\nAccept dns: UDP/53\nDeny isolate: *"), rulesOf(t, "Deny d: 10.0.0.0/8", open)...)
	for i := 4; i < len(rules); i++ {
		rules[i].Direction = policy.Egress
	}
	var got []string
	for _, a := range render(rules) {
		got = append(got, acl.RuleText(a.ACL))
	}
	require.Equal(t, []string{
		"222 allow in azure-acl-npm-block-in proto=6 local=ns-x lports=80", "222 allow in azure-acl-npm-block-in",
		"222 allow in azure-acl-npm-block-in proto=17 lports=53", "3000 block in azure-acl-npm-block-in",
		"1000 block out azure-acl-npm-block-out remote=10.0.0.0/8", "60000 allow out azure-acl-npm-block-out",
	}, got)
}

// TestWrittenOnce: an ACL of a list that two rules make is there once.
func TestWrittenOnce(t *testing.T) {
	for admin, want := range map[string]string{
		"Deny a: ns-x TCP/80 UDP/53\nDeny b: ns-x TCP/80": `block 0 deny-ns-x TCP/80 by a
			block 0 deny-ns-x UDP/53 by a
			block 0 deny-doubt-all TCP/80 by a
			block 0 deny-doubt-all UDP/53 by a`,
		"Accept a: TCP/*\nAccept b: TCP/1-65535": "allow 0 TCP/* by a",
	} {
		require.Equal(t, trimmed(want+"\nallow tail 0 * by default"), textOf(render(rulesOf(t, admin, open))))
	}
}

// TestRulesStay: Render changes nothing of what it is given.
func TestRulesStay(t *testing.T) {
	const admin, tail = "Pass p: ns-x TCP/80 TCP/90 | *\nDeny d: ns-x", "Pass b: ns-y 10.0.0.0/8\nDeny isolate: ns-x TCP/80-90 | *\nAccept a: *"
	rules := rulesOf(t, admin, tail)
	render(rules)
	require.Equal(t, rulesOf(t, admin, tail), rules)
}

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
		got := render([]acl.ResolvedRule{
			{Action: policy.Pass, Atoms: []acl.Atom{{Blocks: a}}, From: admin}, {Action: policy.Deny, Atoms: []acl.Atom{{}}, From: admin},
			{Action: policy.Accept, Atoms: []acl.Atom{{Blocks: b}}, From: acl.Source{Tier: policy.Baseline}},
		})
		var both []netip.Prefix
		if got[0].Action != hns.Block {
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
