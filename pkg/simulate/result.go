package simulate

import (
	"bufio"
	"cmp"
	"encoding/json"
	"io"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/explain"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
	"github.com/winnpm/winnpm/pkg/matrix"
	"github.com/winnpm/winnpm/pkg/simulate/manifest"
	"github.com/winnpm/winnpm/pkg/state"
)

// Result is what is in the simulated HNS at one moment.
type Result struct {
	Sets      []Set
	Endpoints []Endpoint
	// Verdicts answer every question; Grids those of a matrix and Traces the others, for a
	// person. They are computed as they are read.
	Verdicts iter.Seq2[Verdict, error]
	Grids    iter.Seq2[*grid, error]
	Traces   iter.Seq2[Verdict, error]
	// Workloads are the ends of a matrix, none when these are pods.
	Workloads []matrix.Workload
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

// newResult reads the simulator. Nothing may change while the result is in use.
func newResult(sim *hnssim.Sim, d state.Dump, loaded []manifest.Warning) Result {
	r := Result{
		Sets:      []Set{},
		Endpoints: []Endpoint{},
		Calls:     sim.Counts(),
		Warnings:  append(warnings(loaded, d.Warnings), explain.Idle(d, math.MaxInt)...),
	}
	for _, s := range sim.Sets() {
		r.Sets = append(r.Sets, Set{ID: s.ID, Name: s.Name, Type: s.Type, Values: append([]string{}, s.Values...)})
	}
	pods := map[string]string{}
	for _, e := range d.Endpoints {
		pods[e.ID] = e.Pod
	}
	for _, e := range sim.Endpoints() {
		ours, foreign := hns.Endpoint{Policies: e.Policies}.Split()
		out := Endpoint{ID: e.ID, Pod: pods[e.ID], ACLs: append([]hns.ACL{}, ours...), Foreign: []json.RawMessage{}}
		for _, p := range foreign {
			out.Foreign = append(out.Foreign, p.Settings)
		}
		addrs := make([]string, len(e.Addrs))
		for i, a := range e.Addrs {
			addrs[i] = a.String()
		}
		out.IP = strings.Join(addrs, ",")
		r.Endpoints = append(r.Endpoints, out)
	}
	slices.SortFunc(r.Endpoints, func(a, b Endpoint) int { return cmp.Or(cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.ID, b.ID)) })
	return r
}

// warnings joins those of the loader and those of the dataplane.
func warnings(loaded []manifest.Warning, active []state.Warning) []state.Warning {
	out := []state.Warning{}
	for _, w := range loaded {
		out = append(out, state.Warning{Object: w.Object, Kind: w.Kind, Reason: state.Reason(w.Reason), Message: w.Message})
	}
	return append(out, active...)
}

// complete reports whether everything that was asked for is programmed. What is of a kind
// that is not read, was put right, or has nothing to do does not count.
func complete(warnings []state.Warning) bool {
	return !slices.ContainsFunc(warnings, func(w state.Warning) bool {
		return !slices.Contains([]state.Reason{state.Reason(manifest.SkippedKind), state.Reason(manifest.HostBitsMasked), state.ReasonSelectsNothing}, w.Reason)
	})
}

// writeJSON writes a result, verdict by verdict, as there can be millions.
func (r Result) writeJSON(w io.Writer) error {
	b := bufio.NewWriter(w)
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	put := func(before string, v any) error {
		if _, err := b.WriteString(before); err != nil {
			return err
		}
		return enc.Encode(v)
	}
	if err := put(`{"sets":`, r.Sets); err != nil {
		return err
	}
	if err := put(`,"endpoints":`, r.Endpoints); err != nil {
		return err
	}
	sep := ",\"verdicts\":[\n"
	for v, err := range r.Verdicts {
		if err != nil {
			return err
		}
		if err := put(sep, v); err != nil {
			return err
		}
		sep = ","
	}
	if sep != "," {
		if _, err := b.WriteString(sep); err != nil {
			return err
		}
	}
	if len(r.Workloads) > 0 {
		if err := put(`],"workloads":`, r.Workloads); err != nil {
			return err
		}
		if err := put(`,"calls":`, r.Calls); err != nil {
			return err
		}
	} else if err := put(`],"calls":`, r.Calls); err != nil {
		return err
	}
	if err := put(`,"warnings":`, r.Warnings); err != nil {
		return err
	}
	if _, err := b.WriteString("}\n"); err != nil {
		return err
	}
	return b.Flush()
}
