package ui

import (
	"fmt"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/tool/explain"
	"github.com/winnpm/winnpm/tool/match"
)

// maxSpans limits the groups of ports of one cell, and shownRanges the groups that are listed, because
// tenants choose how many ports their rules distinguish. maxQuestions limits the groups of all cells of a
// matrix.
const (
	maxSpans     = 96
	shownRanges  = 8
	maxQuestions = 1 << 20
)

// maxTexts limits the different texts about ports in one matrix. Further cells get a text that only says
// that some ports are allowed.
const (
	maxTexts  = 1000
	somePorts = "some ports"
)

// cell is one cell of a matrix.
type cell struct {
	// letter is the actual verdict: a for allowed, p for partly allowed, b for blocked, u for unknown. It is
	// a capital if the desired verdict of a port differs.
	letter byte
	denier byte // the letter of denierOf, if the cell is blocked
	ports  string
}

// noDenier is the letter of a cell that no end denies.
const noDenier = '-'

// addCells adds a row of cells to the grid.
func (g *grid) addCells(c *explain.Cluster, from workloadEntry, key gridKey, texts map[string]uint16) {
	what, who, which := make([]byte, len(g.Columns)), make([]byte, len(g.Columns)), make([]uint16, len(g.Columns))
	most := min(maxSpans, maxQuestions/max(1, len(g.Rows)*len(g.Columns)))
	for i, to := range g.Columns {
		cell := cellOf(spansOf(c, from, to, key.port, most))
		what[i], who[i] = cell.letter, cell.denier
		if key.anyPort() {
			which[i] = g.textOf(cell.ports, texts)
		}
	}
	g.Cells, g.Deniers = append(g.Cells, string(what)), append(g.Deniers, string(who))
	if key.anyPort() {
		g.Which = append(g.Which, which)
	}
}

// spansOf returns the verdicts between two workloads: on one port, or without a port on all of them, in at
// most the given number of spans. whole reports whether there are no more.
func spansOf(c *explain.Cluster, from, to workloadEntry, port explain.Range, most int) (spans []explain.Span, whole bool) {
	source, destination := representatives(from, to)
	p, err := c.Pair(source, destination)
	switch {
	case err != nil:
		return nil, false // the pod's name cannot be used in a question
	case port == explain.Range{}:
		return p.Spans(most)
	}
	return []explain.Span{p.Span(port)}, true
}

// representatives returns a pod of each workload. Within one workload these are two pods, unless it has
// only one.
func representatives(from, to workloadEntry) (source, destination string) {
	if from.Name == to.Name {
		return from.Sample[0], from.Sample[len(from.Sample)-1]
	}
	return from.Sample[0], to.Sample[0]
}

// cellOf computes a cell from the verdicts on its ports. If these are not all of its ports, the others are
// unknown.
func cellOf(spans []explain.Span, whole bool) cell {
	var allowed []explain.Range
	var differs bool
	unknown := !whole
	var denier byte // for all blocked ports; 'x' if both ends deny some
	for _, s := range spans {
		actual, wanted := s.Egress.With(s.Ingress)
		differs = differs || actual != wanted
		switch actual {
		case explain.Allowed:
			allowed = append(allowed, s.Range)
		case explain.Blocked:
			if who := denierOf(s.Egress, s.Ingress); denier == 0 {
				denier = who
			} else if who != denier {
				denier = 'x'
			}
		case explain.Unknown:
			unknown = true
		}
	}
	out := cell{letter: 'b', denier: noDenier, ports: portsAllowed(allowed)}
	switch {
	case len(allowed) > 0 && (denier != 0 || unknown):
		out.letter = 'p'
	case len(allowed) > 0:
		out.letter = 'a'
	case unknown:
		out.letter = 'u'
	default:
		out.denier = denier
	}
	if len(allowed) > 0 && unknown {
		out.ports += "; of others it is not known"
	}
	if differs {
		out.letter -= 'a' - 'A'
	}
	return out
}

// denierOf returns the letter of the end that denies in HNS: e for the sender, i for the receiver, x for
// both.
func denierOf(egress, ingress explain.Half) byte {
	out, in := egress.Judged && egress.Actual == explain.Blocked, ingress.Judged && ingress.Actual == explain.Blocked
	switch {
	case out && in:
		return 'x'
	case out:
		return 'e'
	}
	return 'i'
}

// portsAllowed returns a text for ports.
func portsAllowed(ports []explain.Range) string {
	merged := explain.JoinRanges(ports)
	if len(merged) == len(match.Protocols()) && !slices.ContainsFunc(merged, func(r explain.Range) bool { return !r.Whole() }) {
		return "all ports"
	}
	var words []string
	for _, r := range merged[:min(len(merged), shownRanges)] {
		words = append(words, r.String())
	}
	text := strings.Join(words, ", ")
	if more := len(merged) - shownRanges; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// textOf returns the index of a text in PortTexts. It adds new texts.
func (g *grid) textOf(text string, texts map[string]uint16) uint16 {
	if n, known := texts[text]; known {
		return n
	}
	if len(texts) >= maxTexts && text != somePorts {
		return g.textOf(somePorts, texts)
	}
	n := uint16(len(texts))
	texts[text], g.PortTexts = n, append(g.PortTexts, text)
	return n
}
