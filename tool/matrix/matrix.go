// Package matrix says, from a dump alone, which workloads may connect to which. Pods that
// no rule tells apart are one workload, so a cluster of thousands of pods is a matrix of
// hundreds of workloads.
package matrix

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/explain"
)

// Workload is a group of pods of one namespace whose names begin alike, with the
// same labels but for those that controllers put on every pod, and the same
// named ports, that no rule and no set of the dump tells apart.
type Workload struct {
	// Name is namespace/name, where the name is what those of the pods have in
	// common; of several workloads of one name all but the first have #2 and so on
	// behind it.
	Name      string   `json:"name"`
	Namespace string   `json:"namespace"`
	Pods      []string `json:"pods"`  // namespace/name, sorted
	Local     bool     `json:"local"` // this node decides about its traffic
}

// Matrix has the workloads of a dump. One goroutine may use it at a time, and
// nobody may change the dump meanwhile.
type Matrix struct {
	cluster   *explain.Cluster
	workloads []Workload
	ports     []policy.Port

	// What Spans needs, by pod, by id and by workload.
	endpoints map[string][]string
	byID      map[string]*state.Endpoint
	edges     map[edgesKey]explain.Edges
}

// New returns the matrix of a dump.
func New(d state.Dump) *Matrix {
	c := explain.New(d)
	m := &Matrix{cluster: c, workloads: Workloads(c), ports: ports(&d), endpoints: map[string][]string{}, byID: map[string]*state.Endpoint{}, edges: map[edgesKey]explain.Edges{}}
	for i := range d.Pods {
		m.endpoints[d.Pods[i].Pod] = d.Pods[i].Endpoints
	}
	for i := range d.Endpoints {
		m.byID[d.Endpoints[i].ID] = &d.Endpoints[i]
	}
	return m
}

// Workloads returns the workloads, sorted by name. Pods in their node's network,
// those that have finished, and those without an IPv4 address of their own are in
// none. The slice is the matrix's own.
func (m *Matrix) Workloads() []Workload { return m.workloads }

// Halves returns what each end says to a connection from a pod of one workload to another pod of
// the other, or to the only pod of both. Workloads are given by their place.
func (m *Matrix) Halves(from, to int, port uint16, protocol policy.Protocol) (egress, ingress explain.Half, err error) {
	a, b := m.Representatives(from, to)
	return m.cluster.Halves(explain.Question{From: a, To: b, Port: port, Protocol: protocol})
}

// Representatives returns the pods that Halves asks about.
func (m *Matrix) Representatives(from, to int) (source, destination string) {
	source, destination = m.workloads[from].Pods[0], m.workloads[to].Pods[0]
	if pods := m.workloads[to].Pods; from == to && len(pods) > 1 {
		destination = pods[1]
	}
	return source, destination
}

// Ports returns the ports and ranges that policies, rules and pods of the dump
// mention, sorted, and last a TCP port that none does. There are no names among
// them.
func (m *Matrix) Ports() []policy.Port { return m.ports }

// member is a pod of a workload in the making.
type member struct {
	pod  *state.Pod
	addr netip.Addr
}

// Workloads returns the workloads of a cluster, sorted by name. Of several
// clusters with the same pods, they are those that nothing in any of them tells
// apart.
func Workloads(cluster *explain.Cluster, others ...*explain.Cluster) []Workload {
	d := cluster.Dump()
	var members []member
	var addrs []netip.Addr
	for i := range d.Pods {
		p := &d.Pods[i]
		if addr, ok := cluster.Owns(p); ok {
			members, addrs = append(members, member{p, addr}), append(addrs, addr)
		}
	}
	added := addedLabels()
	keys := make([]string, len(members))
	for _, c := range append([]*explain.Cluster{cluster}, others...) {
		keepSelected(added, c.Dump())
		for i, class := range c.Classes(addrs) {
			keys[i] += fmt.Sprintf("%d ", class)
		}
	}
	groups := map[string][]member{}
	for i, m := range members {
		key := keys[i] + traits(m.pod, added)
		groups[key] = append(groups[key], m)
	}
	out := make([]Workload, 0, len(groups))
	for _, group := range groups {
		out = append(out, workload(group))
	}
	slices.SortFunc(out, func(a, b Workload) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Pods[0], b.Pods[0])) })
	unique(out)
	return out
}

// traits tells pods apart by what a person sees of them.
func traits(p *state.Pod, added map[string]bool) string {
	labels := map[string]string{}
	for key, value := range p.Labels {
		if !added[key] {
			labels[key] = value
		}
	}
	namespace, name, _ := strings.Cut(p.Pod, "/")
	stem, _, _ := strings.Cut(name, "-") // pods without labels have less in common
	text, err := json.Marshal([]any{namespace, stem, labels, p.Ports, p.Local})
	if err != nil { // strings can be written
		return p.Pod
	}
	return string(text)
}
