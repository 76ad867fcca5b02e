package explain

import (
	"fmt"
	"math"
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
)

// Range is ports of one protocol, both ends included.
type Range struct {
	Protocol policy.Protocol `json:"protocol"`
	First    uint16          `json:"first"`
	Last     uint16          `json:"last"`
}

// Whole reports whether it is all ports of the protocol.
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

// Edges are the ports at which a verdict can change: where the ports of a rule begin, and behind
// their end.
type Edges map[policy.Protocol][]int

// Add adds the edges of a rule.
func (e Edges) Add(a hns.ACL) {
	a = a.Canonical()
	ranges, ok := hns.ParsePorts(a.DstPorts())
	if !ok {
		return
	}
	for _, p := range policy.Protocols() {
		if name, known := protocolNames[a.Protocols]; known && a.Protocols != "" && name != string(p) {
			continue
		}
		for _, r := range ranges {
			e[p] = append(e[p], max(int(r[0]), 1), int(r[1])+1)
		}
	}
}

// Split divides all ports into ranges throughout which every rule says the same.
func Split(parts ...Edges) []Range {
	var out []Range
	for _, p := range policy.Protocols() {
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
