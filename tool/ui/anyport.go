package ui

import (
	"fmt"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/tool/explain"
)

// anyPort is what a matrix is about when nobody names a port: a cell is allowed when any
// port is.
const anyPort = "any"

// maxSpans is how many groups of ports one cell asks about, and shownRanges how many are
// written out: a tenant chooses how many ports its rules tell apart. maxQuestions is how many
// groups all cells of a matrix ask about.
const (
	maxSpans     = 96
	shownRanges  = 8
	maxQuestions = 1 << 20
)

// maxTexts is how many texts about ports one matrix has; of other cells it says no more than
// that some ports are allowed.
const (
	maxTexts  = 1000
	somePorts = "some ports"
)

// partly is the letter of a cell of which some ports are allowed, and not all.
const partly = 'p'

// anyCell is one cell of a matrix about any port.
type anyCell struct {
	letter, denier byte
	ports          string // that are allowed
}

// anyCellOf asks about so many groups of ports of one cell.
func anyCellOf(m *explain.Matrix, from, to, most int) anyCell {
	spans, whole, err := m.Spans(from, to, most)
	if err != nil {
		return anyCell{letter: 'u', denier: noDenier} // its name means something else
	}
	var allowed []explain.Range
	var differs bool
	unknown := !whole
	var denier byte // of all blocked ports; 'x' where both ends deny some
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

// portsAllowed writes ports, which are sorted by protocol and number.
func portsAllowed(ports []explain.Range) string {
	var merged []explain.Range
	for _, r := range ports {
		if n := len(merged) - 1; n >= 0 && merged[n].Protocol == r.Protocol && int(merged[n].Last)+1 == int(r.First) {
			merged[n].Last = r.Last
			continue
		}
		merged = append(merged, r)
	}
	if len(merged) == len(policy.Protocols()) && !slices.ContainsFunc(merged, func(r explain.Range) bool { return !r.Whole() }) {
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

// anyCells is cells for any port. It adds to the texts of the grid those that are new.
func (g *grid) anyCells(m *explain.Matrix, from workloadEntry, texts map[string]uint16) {
	what, who, which := make([]byte, len(g.Columns)), make([]byte, len(g.Columns)), make([]uint16, len(g.Columns))
	most := min(maxSpans, maxQuestions/max(1, len(g.Rows)*len(g.Columns)))
	for i, to := range g.Columns {
		cell := anyCellOf(m, from.index, to.index, most)
		what[i], who[i], which[i] = cell.letter, cell.denier, g.textOf(cell.ports, texts)
	}
	g.Cells, g.Deniers, g.Which = append(g.Cells, string(what)), append(g.Deniers, string(who)), append(g.Which, which)
}

// textOf returns the place of a text.
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
