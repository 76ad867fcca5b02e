package explain

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/match"
)

// Matrix answers questions about all pairs of workloads of a dump. It is not safe for concurrent use, and
// callers must not change the dump while it is in use.
type Matrix struct {
	cluster   *Cluster
	workloads []Workload
	ports     []policy.Port
}

// NewMatrix returns the matrix of a dump.
func NewMatrix(d state.Dump) *Matrix {
	c := New(d)
	return &Matrix{cluster: c, workloads: Workloads(c), ports: ports(&d)}
}

// Workloads returns the workloads, sorted by name. They do not include host-network pods, finished pods,
// and pods that own no IPv4 address. Callers must not change the slice.
func (m *Matrix) Workloads() []Workload { return m.workloads }

// Halves returns the verdicts at both ends of a connection between pods of two workloads, which are given
// by their index. Within one workload these are two pods, unless it has only one.
func (m *Matrix) Halves(from, to int, port uint16, protocol policy.Protocol) (egress, ingress Half, err error) {
	a, b := m.Representatives(from, to)
	source, destination, err := m.cluster.ends(Question{From: a, To: b})
	if err != nil {
		return Half{}, Half{}, err
	}
	egress, ingress = m.cluster.Between(source, destination, port, protocol)
	return egress, ingress, nil
}

// Representatives returns the two pods that Halves uses.
func (m *Matrix) Representatives(from, to int) (source, destination string) {
	source, destination = m.workloads[from].Pods[0], m.workloads[to].Pods[0]
	if pods := m.workloads[to].Pods; from == to && len(pods) > 1 {
		destination = pods[1]
	}
	return source, destination
}

// Ports returns the numeric ports and ranges that NetworkPolicies and pods of the dump mention, sorted,
// followed by a TCP port that none of them mentions.
func (m *Matrix) Ports() []policy.Port { return m.ports }

// Span is a range of ports that no rule distinguishes, with the verdicts at both ends.
type Span struct {
	Range
	Egress, Ingress Half
}

// Spans returns the verdicts for all ports of all protocols. It returns at most the given number of spans;
// whole is false if there are more.
func (m *Matrix) Spans(from, to, most int) (spans []Span, whole bool, err error) {
	p, err := m.cluster.Pair(m.Representatives(from, to))
	if err != nil {
		return nil, false, err
	}
	ranges := Split(p.Edges())
	for _, r := range ranges[:min(len(ranges), most)] {
		s := Span{Range: r}
		s.Egress, s.Ingress = p.Halves(r.First, r.Protocol)
		spans = append(spans, s)
	}
	return spans, len(ranges) <= most, nil
}

// ports computes Matrix.Ports.
func ports(d *state.Dump) (out []policy.Port) {
	for i := range d.Pods {
		for _, text := range d.Pods[i].Ports {
			_, rest, _ := strings.Cut(text, ":")
			if number, protocol, err := ParsePort(rest); err == nil {
				out = append(out, policy.Port{Protocol: protocol, First: number, Last: number})
			}
		}
	}
	for i := range d.Policies {
		if spec := d.Policies[i].Spec; spec != nil {
			for _, r := range policy.Compile(&networkingv1.NetworkPolicy{Spec: *spec}).Rules {
				out = append(out, slices.DeleteFunc(slices.Clone(r.Ports), func(p policy.Port) bool { return p.First == 0 })...)
			}
		}
	}
	slices.SortFunc(out, func(a, b policy.Port) int {
		return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.First, b.First), cmp.Compare(a.Last, b.Last))
	})
	out = slices.Compact(out)
	return append(out, unmentioned(out))
}

// unmentioned returns the highest TCP port that is in none of the ranges, or 65535 if every port is in one.
func unmentioned(mentioned []policy.Port) policy.Port {
	for n := math.MaxUint16; n > 0; n-- {
		number := uint16(n)
		if !slices.ContainsFunc(mentioned, func(p policy.Port) bool {
			return p.Protocol == policy.TCP && p.First <= number && number <= p.Last
		}) {
			return policy.Port{Protocol: policy.TCP, First: number, Last: number}
		}
	}
	return policy.Port{Protocol: policy.TCP, First: math.MaxUint16, Last: math.MaxUint16}
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
