package ui

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/tool/explain"
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

// gridKey is the request for a grid.
type gridKey struct {
	port                policy.Port
	from, to, namespace string // from and to: parts of names, in lower case; namespace: a full name
	here                string // the end that must be on this node: hereFrom, hereTo or hereAny
}

// anyPort reports whether the request names no port.
func (k gridKey) anyPort() bool { return k.port == policy.Port{} }

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
	// Cells has a string for each row with a letter of cellOf for each column, and Deniers has letters of
	// denierOf.
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

	index int
}

// serveMatrix returns the grid that a request asks for. It stops when the client has gone.
func serveMatrix(s *snapshot, r *http.Request) (any, error) {
	m, unlock, err := s.lock(r.Context())
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
	g.Ports, g.Other = portsOf(m)
	texts := map[string]uint16{}
	for _, row := range g.Rows {
		if err := r.Context().Err(); err != nil {
			return nil, err
		}
		if key.anyPort() {
			g.anyCells(m, row, texts)
			continue
		}
		verdicts, deniers := cells(m, row, g.Columns, key.port)
		g.Cells, g.Deniers = append(g.Cells, verdicts), append(g.Deniers, deniers)
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
		key.port = policy.Port{Protocol: protocol, First: number, Last: number}
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

func (k gridKey) portText() string {
	if k.anyPort() {
		return anyPort
	}
	return portText(k.port)
}

// newGrid returns a grid without cells.
func newGrid(all []workloadEntry, key gridKey) grid {
	g := grid{Port: key.portText(), Workloads: len(all), Here: key.here, Rows: []workloadEntry{}, Columns: []workloadEntry{}, Cells: []string{}, Deniers: []string{}, Namespaces: []string{}}
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

func entries(m *explain.Matrix) []workloadEntry {
	out := []workloadEntry{}
	for i, w := range m.Workloads() {
		out = append(out, workloadEntry{w.Name, w.Namespace, len(w.Pods), w.Local, w.Pods[:min(len(w.Pods), 2)], i})
	}
	return out
}

// cells returns two letters for each cell of a row: its verdict, and which end denies it.
func cells(m *explain.Matrix, from workloadEntry, columns []workloadEntry, port policy.Port) (verdicts, deniers string) {
	what, who := make([]byte, len(columns)), make([]byte, len(columns))
	for i, to := range columns {
		egress, ingress, err := m.Halves(from.index, to.index, port.First, port.Protocol)
		if err != nil { // a pod's name cannot be used in a question
			what[i], who[i] = cellOf(explain.Unknown, explain.Unknown), noDenier
			continue
		}
		what[i], who[i] = cellOf(egress.With(ingress)), denierOf(egress, ingress)
	}
	return string(what), string(who)
}

// noDenier is the letter of a cell that no end denies.
const noDenier = '-'

// denierOf returns the letter of the end that denies in HNS: e for the sender, i for the receiver, x for
// both.
func denierOf(egress, ingress explain.Half) byte {
	out, in := egress.Judged && egress.Actual == explain.Blocked, ingress.Judged && ingress.Actual == explain.Blocked
	switch {
	case out && in:
		return 'x'
	case out:
		return 'e'
	case in:
		return 'i'
	}
	return noDenier
}

// cellOf returns the letter of the actual verdict: a for allowed, b for blocked, u for unknown. It is a
// capital if the desired verdict differs.
func cellOf(actual, wanted explain.Verdict) byte {
	letter := byte('u')
	switch actual {
	case explain.Allowed:
		letter = 'a'
	case explain.Blocked:
		letter = 'b'
	case explain.Unknown:
	}
	if actual != wanted {
		letter -= 'a' - 'A'
	}
	return letter
}

// portsOf returns the ports that policies or pods mention, with the first port of each range and with TCP
// first, and a port that none of them mentions.
func portsOf(m *explain.Matrix) (mentioned []string, other string) {
	all := slices.Clone(m.Ports())
	last := len(all) - 1
	rank := map[policy.Protocol]int{policy.TCP: 0, policy.UDP: 1, policy.SCTP: 2}
	slices.SortStableFunc(all[:last], func(a, b policy.Port) int {
		return cmp.Or(cmp.Compare(rank[a.Protocol], rank[b.Protocol]), cmp.Compare(a.First, b.First))
	})
	mentioned = []string{}
	for _, p := range all[:last] {
		mentioned = append(mentioned, portText(p))
	}
	mentioned = slices.Compact(mentioned)
	return mentioned[:min(len(mentioned), maxPorts)], portText(all[last])
}

func portText(p policy.Port) string { return fmt.Sprintf("%d/%s", p.First, p.Protocol) }
