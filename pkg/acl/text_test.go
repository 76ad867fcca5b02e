package acl_test

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// rulesOf reads rules, one a line: "Pass p: ns-x TCP/80 | 10.0.0.0/8". An atom's words are
// sets by their names, blocks and ports; * is everything, and - is no atom.
func rulesOf(t *testing.T, text string) []acl.Entry {
	t.Helper()
	var out []acl.Entry
	for line := range strings.Lines(text) {
		head, body, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok {
			require.Empty(t, head)
			continue
		}
		action, from, _ := strings.Cut(head, " ")
		r := acl.Entry{Action: policy.Action(action), From: acl.Source{Name: from}}
		for atom := range strings.SplitSeq(body, "|") {
			if strings.TrimSpace(atom) != "-" {
				r.Atoms = append(r.Atoms, atomOf(t, atom))
			}
		}
		out = append(out, r)
	}
	return out
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

// textOf writes lines, one a line: "block 0 ns-x TCP/80 by d via p", with "tail" before
// the number of a run of the tail.
func textOf(lines []acl.Line) string {
	var b strings.Builder
	for _, l := range lines {
		word := "allow"
		if l.Block {
			word = "block"
		}
		if l.Tail {
			word += " tail"
		}
		fmt.Fprintf(&b, "%s %d", word, l.Run)
		if len(l.Atom.Sets)+len(l.Atom.Blocks)+len(l.Atom.Ports) == 0 {
			b.WriteString(" *")
		}
		for _, n := range l.Atom.Sets {
			fmt.Fprintf(&b, " %s", n)
		}
		for _, block := range l.Atom.Blocks {
			fmt.Fprintf(&b, " %s", block)
		}
		for _, p := range l.Atom.Ports {
			fmt.Fprintf(&b, " %s", portText(p))
		}
		if l.From.Name != "" {
			fmt.Fprintf(&b, " by %s", l.From.Name)
		}
		for i, via := range l.Via {
			if i == 0 {
				b.WriteString(" via")
			}
			fmt.Fprintf(&b, " %s", via.Name)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func portText(p policy.Port) string {
	switch p.First {
	case 0:
		return fmt.Sprintf("%s/*", p.Protocol)
	case p.Last:
		return fmt.Sprintf("%s/%d", p.Protocol, p.First)
	}
	return fmt.Sprintf("%s/%d-%d", p.Protocol, p.First, p.Last)
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
