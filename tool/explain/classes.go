package explain

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/match"
)

// Classes gives every IPv4 address the number of its class, from 0 in order of appearance.
// Addresses are of one class when nothing in the dump tells them apart: each has the same
// Verdicts with any other address, whichever end it is. It reads all rules and sets once.
func (c *Cluster) Classes(addrs []netip.Addr) []int {
	k := classes{
		c: c, acls: map[hns.ACL]int{}, fields: map[string]bool{}, sets: map[string]bool{},
		facts: make([][]byte, len(addrs)),
	}
	own := map[netip.Addr]string{} // what decides at an address itself: the rules of its pod's endpoints
	for a, pod := range c.owners {
		var eps []string
		for _, ep := range c.endpointsOf(pod) {
			eps = append(eps, k.endpoint(ep))
		}
		slices.Sort(eps)
		own[a] = "pod" + strings.Join(eps, "")
	}
	for i, a := range addrs {
		k.sorted = append(k.sorted, located{Number(a), i})
		k.facts[i] = []byte(own[a] + "\n")
	}
	slices.SortFunc(k.sorted, func(a, b located) int { return cmp.Compare(a.addr, b.addr) })
	for field := range k.fields {
		k.field(field)
	}
	numbers := map[string]int{}
	out := make([]int, len(addrs))
	for i, facts := range k.facts {
		n, ok := numbers[string(facts)]
		if !ok {
			n = len(numbers)
			numbers[string(facts)] = n
		}
		out[i] = n
	}
	return out
}

// classes collects what is true of every address: which rules its endpoints
// have, and which sets and blocks of any rule it is in.
type classes struct {
	c      *Cluster
	acls   map[hns.ACL]int // a number for each rule
	fields map[string]bool // where they name addresses or sets
	sets   map[string]bool // ids that are done
	sorted []located
	facts  [][]byte // by place
	marks  uint32
}

// located is an address and its place in the input.
type located struct {
	addr  uint32
	place int
}

// Number returns an IPv4 address as a number.
func Number(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

// endpoint returns a text that is the same for endpoints with the same rules in any order.
func (k *classes) endpoint(ep *state.EndpointDump) string {
	text := fmt.Appendf(nil, " endpoint %t foreign %v wanted %v", ep.Tiered, k.list(ep.ForeignRules), k.list(ep.Wanted))
	if ep.Known {
		text = fmt.Appendf(text, " applied %v", k.list(ep.Applied))
	} else {
		for _, acls := range ep.Maybe {
			text = fmt.Appendf(text, " maybe %v", k.list(acls))
		}
	}
	return string(text)
}

func (k *classes) list(acls []hns.ACL) []int {
	out := make([]int, len(acls))
	for i, a := range acls {
		n, ok := k.acls[a]
		if !ok {
			n = len(k.acls)
			k.acls[a] = n
			k.fields[a.LocalAddresses], k.fields[a.RemoteAddresses] = true, true
		}
		out[i] = n
	}
	slices.Sort(out)
	return out
}

// field marks the addresses in a list of blocks, or in each set of a list of
// ids.
func (k *classes) field(text string) {
	var blocks match.Spans
	for part := range strings.SplitSeq(text, ",") {
		if sp, ok := match.ParseSpan(part); ok {
			blocks = append(blocks, sp)
		} else if !k.sets[part] {
			k.sets[part] = true
			k.set(part)
		}
	}
	k.mark(blocks.Sorted())
}

// set marks the members that a set has, and those that it should have. A set that is not
// known counts as having every address.
func (k *classes) set(id string) {
	for _, in := range []int{closed, wanted} {
		s := k.c.views[in].set(id).set
		switch {
		case s == nil:
		case s.Type == hns.IPSet:
			k.mark(s.Spans)
		default:
			var all match.Spans
			for _, m := range s.Members {
				all = append(all, m.Spans...)
			}
			k.mark(all.Sorted())
		}
	}
}

// mark gives the addresses in the spans one more fact in common.
func (k *classes) mark(spans match.Spans) {
	k.marks++
	for _, sp := range spans {
		i, _ := slices.BinarySearchFunc(k.sorted, sp.First, func(l located, first uint32) int { return cmp.Compare(l.addr, first) })
		for ; i < len(k.sorted) && k.sorted[i].addr <= sp.Last; i++ {
			at := k.sorted[i].place
			k.facts[at] = binary.BigEndian.AppendUint32(k.facts[at], k.marks)
		}
	}
}
