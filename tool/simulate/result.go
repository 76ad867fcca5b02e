package simulate

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/explain"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// Result is the content of the simulated HNS at one moment, and verdicts.
type Result struct {
	Sets      []Set
	Endpoints []Endpoint // sorted by pod
	Traces    []Verdict
	// Workloads are the rows of the matrices; empty if the rows are pods.
	Workloads []explain.Workload
	Calls     map[string]int
	Warnings  []state.Warning

	// The matrices may have millions of cells, so they are computed while they are written.
	judge  judge
	matrix []explain.Question
	rows   []gridRow
}

// Set is a set in HNS.
type Set struct {
	ID     string      `json:"id"`
	Name   string      `json:"name"`
	Type   hns.SetType `json:"type"`
	Values []string    `json:"values"`
}

// Endpoint is an endpoint with our rules, and the rules of other programs as HNS returns them.
type Endpoint struct {
	ID      string            `json:"id"`
	Pod     string            `json:"pod"`
	IP      string            `json:"ip"`
	ACLs    []hns.ACL         `json:"acls"`
	Foreign []json.RawMessage `json:"foreign"`
}

// newResult reads the simulator and answers the questions, except for the cells of the matrices.
func newResult(sim *hnssim.Sim, j judge, loaded []state.Warning, q questions) (Result, error) {
	traces, err := j.traces(q.trace)
	if err != nil {
		return Result{}, err
	}
	rows, err := j.rows(q)
	if err != nil {
		return Result{}, err
	}
	d := *j.cluster.Dump()
	r := Result{
		Sets: []Set{}, Endpoints: []Endpoint{}, Traces: traces, Calls: sim.Counts(),
		judge: j, matrix: q.matrix, rows: rows,
		Warnings: append([]state.Warning{}, slices.Concat(loaded, d.Warnings, explain.Idle(d, math.MaxInt))...),
	}
	if len(q.matrix) > 0 && !q.all {
		r.Workloads = explain.Workloads(j.cluster)
	}
	for _, s := range sim.Sets() {
		r.Sets = append(r.Sets, Set{ID: s.ID, Name: s.Name, Type: s.Type, Values: append([]string{}, s.Values...)})
	}
	pods := map[string]string{}
	for _, e := range d.Endpoints {
		pods[e.ID] = e.Pod
	}
	ids := sim.AllEndpointIDs()
	slices.SortFunc(ids, func(a, b string) int { return cmp.Or(cmp.Compare(pods[a], pods[b]), cmp.Compare(a, b)) })
	for _, id := range ids {
		if e, ok := sim.Endpoint(id); ok {
			r.Endpoints = append(r.Endpoints, endpointOf(e, pods[id]))
		}
	}
	return r, nil
}

// endpointOf returns a pod's endpoint for a Result.
func endpointOf(e hnssim.SimEndpoint, pod string) Endpoint {
	ours, foreign := hns.Endpoint{Policies: e.Policies}.Split()
	out := Endpoint{ID: e.ID, Pod: pod, ACLs: append([]hns.ACL{}, ours...), Foreign: []json.RawMessage{}}
	for _, p := range foreign {
		out.Foreign = append(out.Foreign, p.Settings)
	}
	addrs := make([]string, len(e.Addrs))
	for i, a := range e.Addrs {
		addrs[i] = a.String()
	}
	out.IP = strings.Join(addrs, ",")
	return out
}
