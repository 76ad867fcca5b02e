package ui

import (
	"fmt"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/tool/explain"
	"github.com/winnpm/winnpm/tool/match"
)

// anyPort is the port of a matrix for a request without a port. A cell is allowed if any port is.
const anyPort = "any"

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

// partly is the letter of a cell with some, but not all, ports allowed.
const partly = 'p'

// anyCell is one cell of a matrix about any port.
type anyCell struct {
	letter, denier byte
	ports          string // the allowed ports
}

// anyCellOf computes one cell from at most the given number of groups of ports.
func anyCellOf(m *explain.Matrix, from, to, most int) anyCell {
	spans, whole, err := m.Spans(from, to, most)
	if err != nil {
		return anyCell{letter: 'u', denier: noDenier} // the pod's name cannot be used in a question
	}
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
	out := anyCell{letter: 'b', denier: noDenier, ports: portsAllowed(allowed)}
	switch {
	case len(allowed) > 0 && (denier != 0 || unknown):
		out.letter = partly
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

// portsAllowed returns a text for ports that are sorted by protocol and number.
func portsAllowed(ports []explain.Range) string {
	var merged []explain.Range
	for _, r := range ports {
		if n := len(merged) - 1; n >= 0 && merged[n].Protocol == r.Protocol && int(merged[n].Last)+1 == int(r.First) {
			merged[n].Last = r.Last
			continue
		}
		merged = append(merged, r)
	}
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

// anyCells is cells for any port. It adds new texts to the grid's PortTexts.
func (g *grid) anyCells(m *explain.Matrix, from workloadEntry, texts map[string]uint16) {
	what, who, which := make([]byte, len(g.Columns)), make([]byte, len(g.Columns)), make([]uint16, len(g.Columns))
	most := min(maxSpans, maxQuestions/max(1, len(g.Rows)*len(g.Columns)))
	for i, to := range g.Columns {
		cell := anyCellOf(m, from.index, to.index, most)
		what[i], who[i], which[i] = cell.letter, cell.denier, g.textOf(cell.ports, texts)
	}
	g.Cells, g.Deniers, g.Which = append(g.Cells, string(what)), append(g.Deniers, string(who)), append(g.Which, which)
}

// textOf returns the index of a text in PortTexts.
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
