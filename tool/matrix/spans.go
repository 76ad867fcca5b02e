package matrix

import (
	"math"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/tool/explain"
)

// Span is ports of one protocol that no rule tells apart, and what each end says to a
// connection to them.
type Span struct {
	policy.Port
	Egress, Ingress explain.Half
}

// Spans asks Halves about every port. The spans are all ports of all protocols, from the
// first to the last, when there are at most so many; whole is false when there are more.
func (m *Matrix) Spans(from, to, most int) (spans []Span, whole bool, err error) {
	a, b := m.Representatives(from, to)
	out, in := m.bounds(from, hns.Out), m.bounds(to, hns.In)
	for i, protocol := range policy.Protocols() {
		firsts := append(slices.Clone(out[i]), in[i]...)
		firsts = append(firsts, 1)
		slices.Sort(firsts)
		firsts = slices.Compact(firsts)
		for n, first := range firsts {
			if len(spans) == most {
				return spans, false, nil
			}
			last := uint16(math.MaxUint16)
			if n+1 < len(firsts) {
				last = firsts[n+1] - 1
			}
			s := Span{Port: policy.Port{Protocol: protocol, First: first, Last: last}}
			if s.Egress, s.Ingress, err = m.cluster.Halves(explain.Question{From: a, To: b, Port: first, Protocol: protocol}); err != nil {
				return nil, false, err
			}
			spans = append(spans, s)
		}
	}
	return spans, true, nil
}

// boundsKey is a workload and a direction.
type boundsKey struct {
	workload int
	dir      hns.Direction
}

// bounds returns, for each of policy.Protocols, the ports at which a rule of the workload begins
// to hold or ends. All pods of a workload have the same rules.
func (m *Matrix) bounds(workload int, dir hns.Direction) [][]uint16 {
	key := boundsKey{workload, dir}
	if out, ok := m.bound[key]; ok {
		return out
	}
	out := make([][]uint16, len(policy.Protocols()))
	for _, id := range m.endpoints[m.workloads[workload].Pods[0]] {
		ep := m.byID[id]
		if ep == nil {
			continue
		}
		for _, acls := range append([][]hns.ACL{ep.Applied, ep.Wanted, ep.ForeignRules}, ep.Maybe...) {
			for _, a := range acls {
				if a.Direction == dir {
					addBounds(out, a)
				}
			}
		}
	}
	for i := range out {
		slices.Sort(out[i])
		out[i] = slices.Compact(out[i])
	}
	m.bound[key] = out
	return out
}

// addBounds adds the ports at which one rule begins to hold or ends.
func addBounds(out [][]uint16, a hns.ACL) {
	ranges, ok := hns.ParsePorts(a.DstPorts())
	if !ok {
		return
	}
	for i, protocol := range policy.Protocols() {
		if !isFor(a, protocol) {
			continue
		}
		for _, r := range ranges {
			if r[0] > 0 {
				out[i] = append(out[i], r[0])
			}
			if r[1] < math.MaxUint16 {
				out[i] = append(out[i], r[1]+1)
			}
		}
	}
}

// isFor reports whether a rule may be about a protocol; without any it is about all.
func isFor(a hns.ACL, protocol policy.Protocol) bool {
	if a.Protocols == "" {
		return true
	}
	for text := range strings.SplitSeq(a.Protocols, ",") {
		if known, ok := protocols[text]; !ok || known == protocol {
			return true
		}
	}
	return false
}
