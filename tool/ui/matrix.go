package ui

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/explain"
	"github.com/winnpm/winnpm/tool/match"
)

// A matrix has at most maxCells cells, and maxLong workloads on one side. Users find further workloads with
// a filter. maxGrids limits the cached grids of a snapshot, and maxPorts the ports that are offered.
const (
	maxSide  = 250 // of both sides, if both are long
	maxCells = maxSide * maxSide
	maxLong  = 2000
	maxGrids = 8
	maxPorts = 100
)

// anyPort is the port of a matrix for a request without a port. A cell is allowed if any port is.
const anyPort = "any"

// gridKey is the request for a grid.
type gridKey struct {
	port                explain.Range // of one port, or zero
	from, to, namespace string        // from and to: parts of names, in lower case; namespace: a full name
	here                string        // the end that must be on this node: hereFrom, hereTo or hereAny
}

// anyPort reports whether the request names no port.
func (k gridKey) anyPort() bool { return k.port == explain.Range{} }

// The values of gridKey.here. One end must be on this node, as a node knows the verdicts for its own pods
// only.
const (
	hereFrom = "from"
	hereTo   = "to"
	hereAny  = "any"
)

// grid is a matrix of the verdicts between workloads.
type grid struct {
	Port       string          `json:"port"`
	Ports      []string        `json:"ports"` // ports that policies or pods mention
	Other      string          `json:"other"` // a port that none of them mentions
	Namespaces []string        `json:"namespaces"`
	Workloads  int             `json:"workloads"` // without any filter
	Here       string          `json:"here"`      // gridKey.here
	Elsewhere  bool            `json:"elsewhere"` // there are workloads on other nodes
	Rows       []workloadEntry `json:"rows"`
	Columns    []workloadEntry `json:"columns"`
	// Cut reports that more workloads match the filters.
	Cut bool `json:"cut"`
	// Cells has a string for each row with cell.letter for each column, and Deniers has cell.denier.
	Cells   []string `json:"cells"`
	Deniers []string `json:"deniers"`
	// In a grid for any port, Which has for each cell the index in PortTexts of its allowed ports.
	PortTexts []string   `json:"portTexts,omitempty"`
	Which     [][]uint16 `json:"which,omitempty"`
}

type workloadEntry struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Pods      int    `json:"pods"`
	Local     bool   `json:"local"`
	// Sample has one or two pods for a trace: the second one is the destination of connections within the
	// workload.
	Sample []string `json:"sample"`
}

// serveMatrix returns the grid that a request asks for. It stops when the client has gone.
func serveMatrix(s *snapshot, r *http.Request) (any, error) {
	c, unlock, err := s.lock(r.Context())
	if err != nil {
		return nil, err
	}
	defer unlock()
	elsewhere := slices.ContainsFunc(s.workloads().all, func(w workloadEntry) bool { return !w.Local })
	key, err := keyOf(r.URL.Query(), elsewhere)
	if err != nil {
		return nil, err
	}
	if g, known := s.grids[key]; known {
		return g, nil
	}
	g := newGrid(s.workloads().all, key)
	g.Elsewhere = elsewhere
	g.Ports, g.Other = portsOf(&s.dump)
	texts := map[string]uint16{}
	for _, row := range g.Rows {
		if err := r.Context().Err(); err != nil {
			return nil, err
		}
		g.addCells(c, row, key, texts)
	}
	if len(s.grids) >= maxGrids {
		clear(s.grids)
	}
	s.grids[key] = g
	return g, nil
}

// keyOf parses a request. The default of here is hereTo if there are other nodes, else hereAny.
func keyOf(query url.Values, elsewhere bool) (gridKey, error) {
	key := gridKey{
		from: strings.ToLower(query.Get("from")), to: strings.ToLower(query.Get("to")), namespace: query.Get("namespace"),
		here: query.Get("here"),
	}
	if asked := query.Get("port"); asked != "" && asked != anyPort {
		if !strings.Contains(asked, "/") {
			asked += "/TCP" // the usual meaning of a number
		}
		number, protocol, err := explain.ParsePort(asked)
		if err != nil {
			return gridKey{}, badRequest(err)
		}
		key.port = explain.Range{Protocol: protocol, First: number, Last: number}
	}
	switch {
	case key.here == "" && elsewhere:
		key.here = hereTo
	case key.here == "":
		key.here = hereAny
	case !slices.Contains([]string{hereFrom, hereTo, hereAny}, key.here):
		return gridKey{}, badRequest(fmt.Errorf("%q is no end: from, to and any are", key.here))
	}
	return key, nil
}

// newGrid returns a grid without cells.
func newGrid(all []workloadEntry, key gridKey) grid {
	g := grid{Port: anyPort, Workloads: len(all), Here: key.here, Rows: []workloadEntry{}, Columns: []workloadEntry{}, Cells: []string{}, Deniers: []string{}, Namespaces: []string{}}
	if !key.anyPort() {
		g.Port = key.port.String()
	}
	take := func(side []workloadEntry, w workloadEntry, part, end string) []workloadEntry {
		if key.namespace != "" && w.Namespace != key.namespace || !strings.Contains(strings.ToLower(w.Name), part) || key.here == end && !w.Local {
			return side
		}
		return append(side, w)
	}
	for _, w := range all {
		g.Namespaces = append(g.Namespaces, w.Namespace)
		g.Rows, g.Columns = take(g.Rows, w, key.from, hereFrom), take(g.Columns, w, key.to, hereTo)
	}
	rows, columns := sides(len(g.Rows), len(g.Columns))
	g.Cut = rows < len(g.Rows) || columns < len(g.Columns)
	g.Rows, g.Columns = g.Rows[:rows], g.Columns[:columns]
	slices.Sort(g.Namespaces)
	g.Namespaces = slices.Compact(g.Namespaces)
	return g
}

// sides limits the sides of a matrix. If one side is short, the other one may be longer.
func sides(rows, columns int) (int, int) {
	rows, columns = min(rows, maxLong), min(columns, maxLong)
	switch {
	case rows*columns <= maxCells:
		return rows, columns
	case columns <= maxSide:
		return maxCells / columns, columns
	case rows <= maxSide:
		return rows, maxCells / rows
	}
	return maxSide, maxSide
}

// entriesOf returns the workloads of a cluster, sorted by name.
func entriesOf(c *explain.Cluster) []workloadEntry {
	out := []workloadEntry{}
	for _, w := range explain.Workloads(c) {
		out = append(out, workloadEntry{w.Name, w.Namespace, len(w.Pods), w.Local, w.Pods[:min(len(w.Pods), 2)]})
	}
	return out
}

// portsOf returns the ports that NetworkPolicies and pods mention, with the first port of each range and
// with TCP first, and a TCP port that none of them mentions.
func portsOf(d *state.Dump) (mentioned []string, other string) {
	var all []policy.Port
	for i := range d.Pods {
		for _, text := range d.Pods[i].Ports {
			_, rest, _ := strings.Cut(text, ":")
			if number, protocol, err := explain.ParsePort(rest); err == nil {
				all = append(all, policy.Port{Protocol: protocol, First: number, Last: number})
			}
		}
	}
	for i := range d.Policies {
		if spec := d.Policies[i].Spec; spec != nil {
			for _, r := range policy.Compile(&networkingv1.NetworkPolicy{Spec: *spec}).Rules {
				all = append(all, r.Ports...)
			}
		}
	}
	all = slices.DeleteFunc(all, func(p policy.Port) bool { return p.First == 0 }) // every port, or a name
	slices.SortFunc(all, func(a, b policy.Port) int {
		order := func(p policy.Port) int { return slices.Index(match.Protocols(), p.Protocol) }
		return cmp.Or(cmp.Compare(order(a), order(b)), cmp.Compare(a.First, b.First))
	})
	mentioned = []string{}
	for _, p := range all {
		mentioned = append(mentioned, explain.Range{Protocol: p.Protocol, First: p.First, Last: p.First}.String())
	}
	mentioned = slices.Compact(mentioned)
	free := uint16(math.MaxUint16)
	for free > 1 && slices.ContainsFunc(all, func(p policy.Port) bool {
		return p.Protocol == policy.TCP && p.First <= free && free <= p.Last
	}) {
		free--
	}
	return mentioned[:min(len(mentioned), maxPorts)], explain.Range{Protocol: policy.TCP, First: free, Last: free}.String()
}
