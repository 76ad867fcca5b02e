package explain

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/match"
)

// Matrix has the workloads of a dump, for questions about all pairs of them. One goroutine may use it at
// a time, and nobody may change the dump meanwhile.
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

// Workloads returns the workloads, sorted by name. Pods in their node's network,
// those that have finished, and those without an IPv4 address of their own are in
// none. The slice is the matrix's own.
func (m *Matrix) Workloads() []Workload { return m.workloads }

// Halves returns what each end says to a connection from a pod of one workload to another pod of
// the other, or to the only pod of both. Workloads are given by their place.
func (m *Matrix) Halves(from, to int, port uint16, protocol policy.Protocol) (egress, ingress Half, err error) {
	a, b := m.Representatives(from, to)
	source, destination, err := m.cluster.ends(Question{From: a, To: b})
	if err != nil {
		return Half{}, Half{}, err
	}
	egress, ingress = m.cluster.Between(source, destination, port, protocol)
	return egress, ingress, nil
}

// Representatives returns the pods that Halves asks about.
func (m *Matrix) Representatives(from, to int) (source, destination string) {
	source, destination = m.workloads[from].Pods[0], m.workloads[to].Pods[0]
	if pods := m.workloads[to].Pods; from == to && len(pods) > 1 {
		destination = pods[1]
	}
	return source, destination
}

// Ports returns the ports and ranges that policies and pods of the dump
// mention, sorted, and last a TCP port that none does. There are no names among
// them.
func (m *Matrix) Ports() []policy.Port { return m.ports }

// Span is ports of one protocol that no rule tells apart, and what each end says to a
// connection to them.
type Span struct {
	Range
	Egress, Ingress Half
}

// Spans asks about every port. The spans are all ports of all protocols, from the
// first to the last, when there are at most so many; whole is false when there are more.
func (m *Matrix) Spans(from, to, most int) (spans []Span, whole bool, err error) {
	p, err := m.cluster.Pair(m.Representatives(from, to))
	if err != nil {
		return nil, false, err
	}
	p.Wanted = true
	ranges := Split(p.Edges())
	for _, r := range ranges[:min(len(ranges), most)] {
		s := Span{Range: r}
		s.Egress, s.Ingress = p.Halves(r.First, r.Protocol)
		spans = append(spans, s)
	}
	return spans, len(ranges) <= most, nil
}

// ports returns what Matrix.Ports does.
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
	return append(out, other(out))
}

// other returns the greatest TCP port that is in none of the ranges; when there
// is none, the greatest.
func other(mentioned []policy.Port) policy.Port {
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
	ranges, ok := match.ParsePorts(destinationPorts(a))
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
