package whatif

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
)

// Range is ports of one protocol, both ends included.
type Range struct {
	Protocol policy.Protocol `json:"protocol"`
	First    uint16          `json:"first"`
	Last     uint16          `json:"last"`
}

// protocols are all that a policy knows, numbers theirs in rules.
var (
	protocols = policy.Protocols()
	numbers   = map[policy.Protocol]string{policy.TCP: "6", policy.UDP: "17", policy.SCTP: "132"}
)

// edges are the ports at which a verdict can change: where the ports of a rule
// begin, and behind their end.
type edges map[policy.Protocol][]int

// add adds those of a rule.
func (e edges) add(a hns.ACL) {
	a = a.Canonical()
	ranges, ok := hns.ParsePorts(a.DstPorts())
	if !ok {
		return
	}
	for _, p := range protocols {
		if a.Protocols != "" && a.Protocols != numbers[p] {
			continue
		}
		for _, r := range ranges {
			e[p] = append(e[p], int(r[0]), int(r[1])+1)
		}
	}
}

// split divides all ports into ranges throughout which every rule says the same.
func split(parts ...edges) []Range {
	var out []Range
	for _, p := range protocols {
		at := []int{1, math.MaxUint16 + 1}
		for _, e := range parts {
			at = append(at, e[p]...)
		}
		slices.Sort(at)
		at = slices.Compact(at)
		for i := range at[1:] {
			out = append(out, Range{p, uint16(at[i]), uint16(at[i+1] - 1)}) //nolint:gosec // from 1 to 65536
		}
	}
	return out
}

// joined sorts ranges and merges neighbours.
func joined(in []Range) []Range {
	order := func(r Range) int { return slices.Index(protocols, r.Protocol) }
	in = slices.Clone(in)
	slices.SortFunc(in, func(a, b Range) int {
		return cmp.Or(cmp.Compare(order(a), order(b)), cmp.Compare(a.First, b.First))
	})
	out := in[:0]
	for _, r := range in {
		if n := len(out); n > 0 && out[n-1].Protocol == r.Protocol && int(out[n-1].Last)+1 == int(r.First) {
			out[n-1].Last = r.Last
			continue
		}
		out = append(out, r)
	}
	return out
}

// others returns the ports that are not in ranges, which are joined.
func others(in []Range) []Range {
	e := edges{}
	for _, r := range in {
		e[r.Protocol] = append(e[r.Protocol], int(r.First), int(r.Last)+1)
	}
	return joined(slices.DeleteFunc(split(e), func(r Range) bool {
		return slices.ContainsFunc(in, func(i Range) bool { return i.Protocol == r.Protocol && i.First <= r.First && r.Last <= i.Last })
	}))
}

// shownRanges keeps ports on one line.
const shownRanges = 6

// portsText says ranges, which are joined, or what they lack, whichever is less.
func portsText(in []Range) string {
	rest := others(in)
	switch {
	case len(rest) == 0:
		return "all ports"
	case len(rest) < len(in) && !slices.ContainsFunc(rest, Range.whole):
		return "all but " + rangesText(rest)
	}
	return rangesText(in)
}

func rangesText(in []Range) string {
	var words []string
	for i, r := range in {
		if i == shownRanges-1 && len(in) > shownRanges {
			words = append(words, fmt.Sprintf("%d more", len(in)-i))
			break
		}
		words = append(words, r.String())
	}
	return strings.Join(words, ", ")
}

// whole reports whether it is all ports of the protocol.
func (r Range) whole() bool { return r.First == 1 && r.Last == math.MaxUint16 }

// String returns 80/TCP, 8000-8010/TCP or all TCP.
func (r Range) String() string {
	switch {
	case r.whole():
		return "all " + string(r.Protocol)
	case r.First == r.Last:
		return fmt.Sprintf("%d/%s", r.First, r.Protocol)
	}
	return fmt.Sprintf("%d-%d/%s", r.First, r.Last, r.Protocol)
}
