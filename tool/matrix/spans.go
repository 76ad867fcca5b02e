package matrix

import (
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
	ranges := explain.Split(m.edgesOf(from, hns.Out), m.edgesOf(to, hns.In))
	for _, r := range ranges[:min(len(ranges), most)] {
		s := Span{Port: policy.Port{Protocol: r.Protocol, First: r.First, Last: r.Last}}
		if s.Egress, s.Ingress, err = m.Halves(from, to, r.First, r.Protocol); err != nil {
			return nil, false, err
		}
		spans = append(spans, s)
	}
	return spans, len(ranges) <= most, nil
}

// edgesKey is a workload and a direction.
type edgesKey struct {
	workload int
	dir      hns.Direction
}

// edgesOf returns the edges of a workload's rules in a direction. All its pods have the same rules.
func (m *Matrix) edgesOf(workload int, dir hns.Direction) explain.Edges {
	key := edgesKey{workload, dir}
	if out, ok := m.edges[key]; ok {
		return out
	}
	out := explain.Edges{}
	for _, id := range m.endpoints[m.workloads[workload].Pods[0]] {
		ep := m.byID[id]
		if ep == nil {
			continue
		}
		for _, acls := range append([][]hns.ACL{ep.Applied, ep.Wanted, ep.ForeignRules}, ep.Maybe...) {
			for _, a := range acls {
				if a.Direction == dir {
					out.Add(a)
				}
			}
		}
	}
	m.edges[key] = out
	return out
}
