package acl_test

import (
	"cmp"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// rulesOf reads rules, one a line: "Pass p: ns-x TCP/80 | 10.0.0.0/8", of the Admin tier and of what
// follows it. An atom's words are sets by their names, blocks and ports; * is everything, and - is
// no atom.
func rulesOf(t *testing.T, admin, tail string) []acl.ResolvedRule {
	t.Helper()
	return append(tierOf(t, policy.Admin, admin), tierOf(t, policy.Baseline, tail)...)
}

func tierOf(t *testing.T, tier policy.Tier, text string) (out []acl.ResolvedRule) {
	t.Helper()
	for line := range strings.Lines(text) {
		head, body, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok {
			require.Empty(t, head)
			continue
		}
		action, from, _ := strings.Cut(head, " ")
		r := acl.ResolvedRule{Action: policy.Action(action), From: acl.Source{Tier: tier, Name: from}}
		for atom := range strings.SplitSeq(body, "|") {
			if strings.TrimSpace(atom) != "-" {
				r.Atoms = append(r.Atoms, atomOf(t, atom))
			}
		}
		out = append(out, r)
	}
	return out
}

// render renders rules, with the names of sets for Ids and many ACLs.
func render(rules []acl.ResolvedRule) []*acl.SourcedACL {
	acls, fits := acl.Render(rules, acl.Options{ID: ipsets.Name.String, Limit: 1000})
	if !fits {
		panic("over the limit")
	}
	return acls
}

func atomOf(t *testing.T, text string) acl.Atom {
	t.Helper()
	var a acl.Atom
	for word := range strings.FieldsSeq(text) {
		if word == "*" {
			continue
		}
		if n, ok := nameOf(word); ok {
			a.Sets = append(a.Sets, n)
		} else if block, err := netip.ParsePrefix(word); err == nil {
			a.Blocks = append(a.Blocks, block)
		} else {
			a.Ports = append(a.Ports, portOf(t, word))
		}
	}
	a.Ports = policy.Fewest(a.Ports)
	return a
}

func nameOf(word string) (ipsets.Name, bool) {
	if n, ok := ipsets.ParseName(word, false); ok {
		return n, true
	}
	return ipsets.ParseName(word, true)
}

func portOf(t *testing.T, word string) policy.Port {
	t.Helper()
	protocol, numbers, ok := strings.Cut(word, "/")
	require.True(t, ok, word)
	out := policy.Port{Protocol: policy.Protocol(protocol)}
	if numbers != "*" {
		first, last, ranged := strings.Cut(numbers, "-")
		n, err := strconv.ParseUint(first, 10, 16)
		require.NoError(t, err)
		out.First, out.Last = uint16(n), uint16(n)
		if ranged {
			n, err = strconv.ParseUint(last, 10, 16)
			require.NoError(t, err)
			out.Last = uint16(n)
		}
	}
	return out
}

// textOf writes ACLs, one a line: "block 0 ns-x TCP/80 by d via p", with the number of the run, and
// "tail" before those of the tail.
func textOf(acls []*acl.SourcedACL) string {
	var b strings.Builder
	for _, a := range acls {
		b.WriteString(strings.ToLower(string(a.Action)))
		if a.Priority >= hns.PriorityTail {
			fmt.Fprintf(&b, " tail %d", a.Priority-hns.PriorityTail)
		} else {
			fmt.Fprintf(&b, " %d", a.Priority-hns.PriorityTiers)
		}
		if a.MatchesAll() {
			b.WriteString(" *")
		}
		for _, n := range a.Names {
			fmt.Fprintf(&b, " %s", n)
		}
		if a.RemoteAddresses != "" {
			fmt.Fprintf(&b, " %s", a.RemoteAddresses)
		}
		if protocol := map[string]string{"6": "TCP", "17": "UDP"}[a.Protocols]; protocol != "" {
			fmt.Fprintf(&b, " %s/%s", protocol, cmp.Or(a.LocalPorts, "*"))
		}
		if a.From.Name != "" {
			fmt.Fprintf(&b, " by %s", a.From.Name)
		}
		for i, via := range a.Via {
			if i == 0 {
				b.WriteString(" via")
			}
			fmt.Fprintf(&b, " %s", via.Name)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// trimmed takes the indentation from each line.
func trimmed(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}
