package simulate

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/explain"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// Result is what is in the simulated HNS at one moment.
type Result struct {
	Sets []Set
	// Endpoints are sorted by pod. They are read as they are shown: there may be ten thousand.
	Endpoints     each[Endpoint]
	EndpointCount int
	// Verdicts answer every question; Grids those of a matrix and Traces the others, for a
	// person. They are computed as they are read.
	Verdicts each[Verdict]
	Grids    each[*grid]
	Traces   each[Verdict]
	// Workloads are the ends of a matrix, none when these are pods.
	Workloads []explain.Workload
	Calls     map[string]int
	Warnings  []state.Warning
}

// Set is a set of HNS.
type Set struct {
	ID     string      `json:"id"`
	Name   string      `json:"name"`
	Type   hns.SetType `json:"type"`
	Values []string    `json:"values"`
}

// Endpoint is an endpoint with our rules, and those of others as HNS shows them.
type Endpoint struct {
	ID      string            `json:"id"`
	Pod     string            `json:"pod"`
	IP      string            `json:"ip"`
	ACLs    []hns.ACL         `json:"acls"`
	Foreign []json.RawMessage `json:"foreign"`
}

// newResult reads the simulator and answers questions. Nothing may change while the result is in use.
func newResult(ctx context.Context, sim *hnssim.Sim, j judge, loaded []state.Warning, q questions) (Result, error) {
	rows, err := j.check(q)
	if err != nil {
		return Result{}, err
	}
	d := *j.cluster.Dump()
	r := Result{
		Sets:     []Set{},
		Calls:    sim.Counts(),
		Verdicts: j.all(ctx, q, rows),
		Grids:    j.grids(ctx, q, rows),
		Traces:   j.traces(q),
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
	r.EndpointCount = len(ids)
	r.Endpoints = func(use func(Endpoint) error) error {
		for _, id := range ids {
			if e, ok := sim.Endpoint(id); ok {
				if err := use(shown(e, pods[id])); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return r, nil
}

// shown is the endpoint of a pod as HNS shows it.
func shown(e hnssim.EndpointView, pod string) Endpoint {
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
