package acl

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// meet returns the packets that are in both atoms, and false if there can be none. Ports
// and blocks are exact. Two sets are disjoint only if their names tell that.
func meet(a, b Atom) (Atom, bool) {
	var out Atom
	var ok bool
	if out.Ports, ok = meetPorts(a.Ports, b.Ports); !ok {
		return Atom{}, false
	}
	if out.Blocks, ok = meetBlocks(a.Blocks, b.Blocks); !ok {
		return Atom{}, false
	}
	for _, n := range b.Sets {
		if slices.ContainsFunc(a.Sets, func(m ipsets.Name) bool { return disjoint(m, n) }) {
			return Atom{}, false
		}
	}
	out.Sets = slices.Clone(a.Sets)
	for _, n := range b.Sets {
		if !slices.Contains(out.Sets, n) {
			out.Sets = append(out.Sets, n)
		}
	}
	if len(out.Sets) > 0 && everyone(out.Blocks) {
		out.Blocks = nil // otherwise the ACL would name a set of all addresses
	}
	return out, true
}

func meetPorts(a, b []policy.Port) ([]policy.Port, bool) {
	switch {
	case len(a) == 0:
		return b, true
	case len(b) == 0:
		return a, true
	}
	var out []policy.Port
	for _, p := range a {
		for _, q := range b {
			switch {
			case p.Protocol != q.Protocol:
			case p.First == 0:
				out = append(out, q)
			case q.First == 0:
				out = append(out, p)
			case p.First <= q.Last && q.First <= p.Last:
				out = append(out, policy.Port{Protocol: p.Protocol, First: max(p.First, q.First), Last: min(p.Last, q.Last)})
			}
		}
	}
	return policy.Fewest(out), len(out) > 0
}

// meetBlocks returns the smaller block of each two that overlap. The result is sorted and the fewest
// again: of two prefixes, one contains the other or they share nothing.
func meetBlocks(a, b []netip.Prefix) ([]netip.Prefix, bool) {
	switch {
	case everyone(a):
		return b, true
	case everyone(b):
		return a, true
	}
	var out []netip.Prefix
	for len(a) > 0 && len(b) > 0 {
		switch p, q := a[0], b[0]; {
		case p.Overlaps(q) && p.Bits() >= q.Bits():
			out, a = append(out, p), a[1:]
		case p.Overlaps(q):
			out, b = append(out, q), b[1:]
		case p.Addr().Less(q.Addr()):
			a = a[1:]
		default:
			b = b[1:]
		}
	}
	return out, len(out) > 0
}

// disjoint reports whether no address can belong to both sets, as an address belongs to
// one pod: the pods of two namespaces, those with two values of one label, or those in
// namespaces with two values of one label.
func disjoint(a, b ipsets.Name) bool {
	if a.Kind() == ipsets.KindNamespace && b.Kind() == ipsets.KindNamespace {
		return a.Text() != b.Text()
	}
	keyA, valuesA := labelOf(a)
	keyB, valuesB := labelOf(b)
	return keyA != "" && keyA == keyB && !slices.ContainsFunc(valuesA, func(v string) bool { return slices.Contains(valuesB, v) })
}

// labelOf returns the label of whose values the members of a set have one, of pods and of
// namespaces apart. The key is "" if the set is of no such kind. Neither keys nor values
// have a colon.
func labelOf(n ipsets.Name) (key string, values []string) {
	parts := strings.Split(n.Text(), ":")
	switch {
	case len(parts) < 2:
	case n.Kind() == ipsets.KindPodLabel || n.Kind() == ipsets.KindNestedLabel:
		return "pod " + parts[0], parts[1:]
	case n.Kind() == ipsets.KindNamespaceSelector && !strings.HasPrefix(n.Text(), "{"):
		return "namespace " + parts[0], parts[1:]
	}
	return "", nil
}
