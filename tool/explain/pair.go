package explain

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/tool/match"
)

// Pair is two ends, for questions about many ports.
type Pair struct {
	c        *Cluster
	from, to End
}

// Pair returns a pair of ends, which are named as in a Question.
func (c *Cluster) Pair(from, to string) (*Pair, error) {
	source, destination, err := c.ends(Question{From: from, To: to})
	return &Pair{c, source, destination}, err
}

// Span is a range of ports that no rule distinguishes, with the verdicts at both ends.
type Span struct {
	Range
	Egress, Ingress Half
}

// Span returns the verdicts for the first port of a range.
func (p *Pair) Span(r Range) Span {
	egress, ingress := p.Halves(r.First, r.Protocol)
	return Span{r, egress, ingress}
}

// Spans returns the verdicts for all ports of all protocols. It returns at most the given number of spans;
// whole is false if there are more.
func (p *Pair) Spans(most int) (spans []Span, whole bool) {
	ranges := Split(p.Edges())
	for _, r := range ranges[:min(len(ranges), most)] {
		spans = append(spans, p.Span(r))
	}
	return spans, len(ranges) <= most
}

// Halves returns the verdicts at both ends of a connection to a port.
func (p *Pair) Halves(port uint16, protocol policy.Protocol) (egress, ingress Half) {
	return p.c.Between(p.from, p.to, port, protocol)
}

// Edges returns the ports at which a verdict may change: the edges of the actual and the desired rules
// that match the addresses.
func (p *Pair) Edges() Edges {
	e := Edges{}
	packet := packet(p.from, p.to, 0, policy.TCP)
	add := func(key listKey, dir hns.DirectionType) {
		for _, r := range p.c.parse(key).rules {
			if r.ACL.Direction == dir && r.MatchesAddresses(&packet) {
				e.Add(r)
			}
		}
	}
	for dir, end := range map[hns.DirectionType]End{hns.Out: p.from, hns.In: p.to} {
		for _, ep := range end.endpoints {
			for i := range possibleLists(ep) {
				add(listKey{ep, viewEmpty, i}, dir)
				add(listKey{ep, viewFull, i}, dir)
			}
			add(listKey{ep, viewDesired, 0}, dir)
		}
	}
	return e
}

// Range is a range of ports of one protocol, both ends included.
type Range struct {
	Protocol policy.Protocol `json:"protocol"`
	First    uint16          `json:"first"`
	Last     uint16          `json:"last"`
}

// Whole reports whether the range contains all ports of the protocol.
func (r Range) Whole() bool { return r.First == 1 && r.Last == math.MaxUint16 }

// String returns 80/TCP, 8000-8010/TCP or all TCP.
func (r Range) String() string {
	switch {
	case r.Whole():
		return "all " + string(r.Protocol)
	case r.First == r.Last:
		return fmt.Sprintf("%d/%s", r.First, r.Protocol)
	}
	return fmt.Sprintf("%d-%d/%s", r.First, r.Last, r.Protocol)
}

// Edges are the ports at which a verdict can change: the first port of each rule's range, and the port
// after its last.
type Edges map[policy.Protocol][]int

// Add adds the edges of a rule.
func (e Edges) Add(r *match.Rule) {
	for _, p := range match.Protocols() {
		if r.Protocol != match.EveryProtocol && r.Protocol != int(protocolNumbers[p]) {
			continue
		}
		for _, ports := range r.Ports {
			e[p] = append(e[p], int(ports[0]), int(ports[1])+1)
		}
	}
}

// Split divides all ports of all protocols into ranges at the edges.
func Split(parts ...Edges) []Range {
	var out []Range
	for _, p := range match.Protocols() {
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

// JoinRanges sorts ranges by protocol and port, and merges adjacent ones.
func JoinRanges(in []Range) (out []Range) {
	order := func(r Range) int { return slices.Index(match.Protocols(), r.Protocol) }
	for _, r := range slices.SortedFunc(slices.Values(in), func(a, b Range) int {
		return cmp.Or(cmp.Compare(order(a), order(b)), cmp.Compare(a.First, b.First))
	}) {
		if n := len(out); n > 0 && out[n-1].Protocol == r.Protocol && int(out[n-1].Last)+1 == int(r.First) {
			out[n-1].Last = r.Last
			continue
		}
		out = append(out, r)
	}
	return out
}
