package whatif

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/tool/explain"
)

// joined sorts ranges and merges neighbours.
func joined(in []explain.Range) []explain.Range {
	order := func(r explain.Range) int { return slices.Index(policy.Protocols(), r.Protocol) }
	in = slices.Clone(in)
	slices.SortFunc(in, func(a, b explain.Range) int {
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
func others(in []explain.Range) []explain.Range {
	e := explain.Edges{}
	for _, r := range in {
		e[r.Protocol] = append(e[r.Protocol], int(r.First), int(r.Last)+1)
	}
	return joined(slices.DeleteFunc(explain.Split(e), func(r explain.Range) bool {
		return slices.ContainsFunc(in, func(i explain.Range) bool { return i.Protocol == r.Protocol && i.First <= r.First && r.Last <= i.Last })
	}))
}

// shownRanges keeps ports on one line.
const shownRanges = 6

// portsText says ranges, which are joined, or what they lack, whichever is less.
func portsText(in []explain.Range) string {
	rest := others(in)
	switch {
	case len(rest) == 0:
		return "all ports"
	case len(rest) < len(in) && !slices.ContainsFunc(rest, explain.Range.Whole):
		return "all but " + rangesText(rest)
	}
	return rangesText(in)
}

func rangesText(in []explain.Range) string {
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
