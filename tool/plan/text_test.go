package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go4.org/netipx"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/cluster"
	"github.com/winnpm/winnpm/tool/explain"
	"github.com/winnpm/winnpm/tool/match"
)

func ports(protocol policy.Protocol, first, last uint16) explain.Range {
	return explain.Range{Protocol: protocol, First: first, Last: last}
}

func TestPortsText(t *testing.T) {
	tcp := func(first, last uint16) explain.Range { return ports(policy.TCP, first, last) }
	udp, sctp := ports(policy.UDP, 1, 65535), ports(policy.SCTP, 1, 65535)
	for want, in := range map[string][]explain.Range{
		"all ports":         {tcp(1, 65535), udp, sctp},
		"all TCP":           {tcp(1, 65535)},
		"all TCP, all UDP":  {tcp(1, 79), tcp(80, 80), tcp(81, 65535), udp},
		"80/TCP":            {tcp(80, 80)},
		"80-81/TCP, 90/TCP": {tcp(90, 90), tcp(81, 81), tcp(80, 80)},
		"all but 80/TCP":    {tcp(1, 79), tcp(81, 65535), udp, sctp},
		"1/TCP, 3/TCP, 5/TCP, 7/TCP, 9/TCP, 2 more": {
			tcp(1, 1), tcp(3, 3), tcp(5, 5), tcp(7, 7), tcp(9, 9), tcp(11, 11), tcp(13, 13),
		},
	} {
		require.Equal(t, want, portsText(explain.JoinRanges(in)))
	}
}

// TestSplit: the ranges have every port once, and no rule begins or ends within.
func TestSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := explain.Edges{}
		ports := rapid.SliceOfN(rapid.Uint16Range(1, 65535), 0, 6).Draw(t, "ports")
		for _, n := range ports {
			rule, err := match.ParseRule(hns.ACL{Direction: hns.In, Protocols: rapid.SampledFrom([]string{"", "6", "17", "132", "256"}).Draw(t, "protocol"), LocalPorts: fmt.Sprintf("%d-%d", n, max(n, 60000))}, nil)
			require.NoError(t, err)
			e.Add(rule)
		}
		ranges := explain.Split(e)
		require.Equal(t, "all ports", portsText(explain.JoinRanges(ranges)))
		total := 0
		for _, r := range ranges {
			total += int(r.Last) - int(r.First) + 1
		}
		require.Equal(t, 3*65535, total)
		half := ranges[:len(ranges)/2]
		require.Empty(t, others(explain.JoinRanges(slices.Concat(half, others(explain.JoinRanges(half))))))
	})
}

func TestAddressesAreNamedByWhatIsShorter(t *testing.T) {
	for want, blocks := range map[string][]string{
		"every address":                               {"0.0.0.0/0"},
		"addresses in 10.0.0.0/8":                     {"10.0.0.0/9", "10.128.0.0/9"},
		"addresses not in 128.0.0.0/3":                {"0.0.0.0/1", "160.0.0.0/3", "192.0.0.0/2"},
		"addresses in 1.0.0.0/32, 3.0.0.0/32, 2 more": {"1.0.0.0/32", "3.0.0.0/32", "5.0.0.0/32", "7.0.0.0/32"},
	} {
		var b netipx.IPSetBuilder
		for _, text := range blocks {
			b.AddPrefix(netip.MustParsePrefix(text))
		}
		var a Addresses
		a.describe(&b)
		require.Equal(t, want, a.Name)
	}
}

// TestLongListsAreCut: a person sees the beginning and how much more there is.
func TestLongListsAreCut(t *testing.T) {
	p := Plan{Tally: Tally{Flipped: 1, Blocked: 1}, Between: Tally{Flipped: 1, Blocked: 1}, Connections: 2, Pods: 2, NodesSeen: 20}
	for i := range 50 {
		name := fmt.Sprintf("x/w%02d", i)
		p.Workloads = append(p.Workloads, explain.Workload{Name: name, Pods: []string{name}})
		p.Flips = append(p.Flips, Flip{From: name, To: name, Ports: []explain.Range{ports(policy.TCP, uint16(i+1), uint16(i+1))}, Before: explain.Allowed, After: explain.Blocked})
		p.Flips = append(p.Flips, Flip{From: name, To: "x/all", Ports: []explain.Range{ports(policy.UDP, 1, 1)}, Before: explain.Allowed, After: explain.Blocked, By: []string{"x/p"}})
	}
	for i := range 20 {
		n := NodeChange{Node: fmt.Sprintf("n%02d", i), ACLsAdded: 1, Endpoints: 1}
		for j := range 20 {
			n.Sets = append(n.Sets, SetChange{Name: fmt.Sprintf("set-%d", j), Change: cluster.Changed, Joined: 1})
		}
		p.Nodes = append(p.Nodes, n)
	}
	var b strings.Builder
	require.NoError(t, p.WriteText(&b, false))
	text := b.String()
	require.Contains(t, text, "BLOCKED 1; none opened. 1 of 2 connections between 2 pods flip. 20 of 20 nodes written to.\n")
	require.Contains(t, text, "  x/w00 (1 pod) -> x/w00 (1 pod): 1/TCP  allowed -> blocked\n")
	require.Contains(t, text, "  x/w00 (1 pod), x/w01 (1 pod), 48 others -> x/all: 1/UDP  allowed -> blocked by x/p\n")
	require.Contains(t, text, "  and 12 more lines; --all shows them\n")
	require.Contains(t, text, "  n08: 20 sets changed, +1 -0 ACLs on 1 endpoint\n    ~ set-0  +1 -0 members\n")
	require.Contains(t, text, "    and 9 more sets; --all shows them\n")
	require.Contains(t, text, "  and 11 more nodes; --all shows them\n")
	require.NotContains(t, text, "n09")

	b.Reset()
	require.NoError(t, p.WriteText(&b, true))
	require.NotContains(t, b.String(), "more")
	require.NotContains(t, b.String(), "others")
	require.Contains(t, b.String(), "  n19: ")
	require.Contains(t, b.String(), "    ~ set-19  +1 -0 members\n")
}

// TestTextOfAHostileDump: what a dump says is neither a line of its own nor an
// order to the terminal.
func TestTextOfAHostileDump(t *testing.T) {
	text := func(evil string) string {
		p := Plan{Workloads: []explain.Workload{{Name: evil, Pods: []string{evil}}}, Nodes: []NodeChange{{Node: evil, Sets: []SetChange{{Name: evil, Change: added}}}}}
		p.Policies = []PolicyChange{{Policy: evil, Change: added}}
		p.Flips = []Flip{{From: evil, To: evil, Before: explain.Allowed, After: explain.Blocked, By: []string{evil}}}
		p.Warnings = []state.Warning{{Object: evil, Message: evil}}
		var b strings.Builder
		require.NoError(t, p.WriteText(&b, false))
		return b.String()
	}
	got := text("x\x1b[2J\nNothing changes\u202e")
	require.Equal(t, strings.Count(text("x"), "\n"), strings.Count(got, "\n"))
	require.NotContains(t, got, "\x1b")
	require.NotContains(t, got, "\u202e")
}
