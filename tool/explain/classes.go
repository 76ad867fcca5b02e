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

// Classes returns the class of each IPv4 address, numbered from 0 in order of appearance. Addresses of one
// class have the same verdicts with every other address, as source and as destination. It reads all rules
// and sets once.
func (c *Cluster) Classes(addrs []netip.Addr) []int {
	k := classes{
		c: c, acls: map[hns.ACL]int{}, fields: map[string]bool{}, sets: map[string]bool{},
		facts: make([][]byte, len(addrs)),
	}
	own := map[netip.Addr]string{} // by address: the rules of its pod's endpoints
	for a, pod := range c.owners {
		var eps []string
		for _, ep := range c.endpointsOf(pod) {
			eps = append(eps, k.endpoint(ep))
		}
		slices.Sort(eps)
		own[a] = "pod" + strings.Join(eps, "")
	}
	for i, a := range addrs {
		k.sorted = append(k.sorted, located{match.Number(a), i})
		k.facts[i] = []byte(own[a] + "\n")
	}
	slices.SortFunc(k.sorted, func(a, b located) int { return cmp.Compare(a.addr, b.addr) })
	for field := range k.fields {
		k.markField(field)
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

// classes collects facts about addresses: the rules of their endpoints, and the sets and blocks that
// contain them. Addresses with equal facts are of one class.
type classes struct {
	c      *Cluster
	acls   map[hns.ACL]int // a number for each rule
	fields map[string]bool // the address fields of rules
	sets   map[string]bool // ids that markSet has done
	sorted []located
	facts  [][]byte // by place in the input
	marks  uint32
}

// located is an address and its place in the input.
type located struct {
	addr  uint32
	place int
}

// endpoint returns a key that is equal for endpoints with equal rules in any order.
func (k *classes) endpoint(ep *state.EndpointDump) string {
	text := fmt.Appendf(nil, " endpoint %t foreign %v wanted %v", ep.Tiered, k.numbers(ep.ForeignRules), k.numbers(ep.Wanted))
	for _, acls := range possibleLists(ep) {
		text = fmt.Appendf(text, " actual %v", k.numbers(acls))
	}
	return string(text)
}

func (k *classes) numbers(acls []hns.ACL) []int {
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

// markField marks the addresses that an address field of a rule contains: a list of blocks or of set ids.
func (k *classes) markField(text string) {
	var blocks match.Spans
	for part := range strings.SplitSeq(text, ",") {
		if sp, ok := match.ParseSpan(part); ok {
			blocks = append(blocks, sp)
		} else if !k.sets[part] {
			k.sets[part] = true
			k.markSet(part)
		}
	}
	k.mark(blocks.Sorted())
}

// markSet marks the actual members of a set, and then its desired members. It marks nothing for an unknown
// set, which distinguishes no addresses.
func (k *classes) markSet(id string) {
	for _, in := range []int{viewEmpty, viewDesired} {
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

// mark adds a new fact to every address in the spans.
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
