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

// A matrix has at most maxCells, and maxLong workloads on one side; a filter finds the
// others. maxGrids is how many of a snapshot are kept, and maxPorts how many ports are
// offered.
const (
	maxSide  = 250 // of both sides, where both are long
	maxCells = maxSide * maxSide
	maxLong  = 2000
	maxGrids = 8
	maxPorts = 100
)

// gridKey is the request for a grid.
type gridKey struct {
	port                policy.Port
	from, to, namespace string // parts of names, in lower case; a whole namespace
	here                string // which end has to be on this node: hereFrom, hereTo or hereAny
}

// anyPort reports whether the request names no port.
func (k gridKey) anyPort() bool { return k.port == policy.Port{} }

// The ends of which one has to be on this node. A node decides for its own pods
// alone: of two others it knows nothing.
const (
	hereFrom = "from"
	hereTo   = "to"
	hereAny  = "any"
)

// grid is who may connect to whom.
type grid struct {
	Port       string          `json:"port"`
	Ports      []string        `json:"ports"` // that something mentions
	Other      string          `json:"other"` // one that nothing does
	Namespaces []string        `json:"namespaces"`
	Workloads  int             `json:"workloads"` // without any filter
	Here       string          `json:"here"`      // the end that is on this node
	Elsewhere  bool            `json:"elsewhere"` // there are workloads on other nodes
	Rows       []workloadEntry `json:"rows"`
	Columns    []workloadEntry `json:"columns"`
	// Cut: there are more that the filters let through.
	Cut bool `json:"cut"`
	// Cells has a text per row with a letter per column, of the words of cellOf, and Deniers
	// one of denierOf.
	Cells   []string `json:"cells"`
	Deniers []string `json:"deniers"`
	// Of a grid about any port, Which has for each cell the place in PortTexts of the ports
	// that are allowed.
	PortTexts []string   `json:"portTexts,omitempty"`
	Which     [][]uint16 `json:"which,omitempty"`
}

type workloadEntry struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Pods      int    `json:"pods"`
	Local     bool   `json:"local"`
	// Sample has the pods that stand for it in a trace: one, and a second one for a connection to itself.
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

// keyOf reads what is asked for. Without an end, the connections into this node are if
// there are others.
func keyOf(query url.Values, elsewhere bool) (gridKey, error) {
	key := gridKey{
		from: strings.ToLower(query.Get("from")), to: strings.ToLower(query.Get("to")), namespace: query.Get("namespace"),
		here: query.Get("here"),
	}
	if asked := query.Get("port"); asked != "" && asked != anyPort {
		if !strings.Contains(asked, "/") {
			asked += "/TCP" // what everybody means by a number
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

// sides cuts a matrix to its bounds: a side that is short leaves room for a long one.
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

// cells has a letter for each connection of a row: what becomes of it, and who denies it.
func cells(m *explain.Matrix, from workloadEntry, columns []workloadEntry, port policy.Port) (verdicts, deniers string) {
	what, who := make([]byte, len(columns)), make([]byte, len(columns))
	for i, to := range columns {
		egress, ingress, err := m.Halves(from.index, to.index, port.First, port.Protocol)
		if err != nil { // of a pod whose name means something else
			what[i], who[i] = cellOf(explain.Unknown, explain.Unknown), noDenier
			continue
		}
		what[i], who[i] = cellOf(egress.With(ingress)), denierOf(egress, ingress)
	}
	return string(what), string(who)
}

// noDenier is the letter of a cell that neither end denies.
const noDenier = '-'

// denierOf is the letter of who denies in HNS: e the sender's policies, i the receiver's, x
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

// cellOf is the letter of what HNS does: a allowed, b blocked, u unknown; a
// capital where it should do something else.
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

// portsOf returns the ports that something mentions, of a range its first, those
// of TCP in front, and one that nothing does.
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
