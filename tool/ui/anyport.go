package ui

import (
	"fmt"
	"math"
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

// unasked is the cell of a pod whose name means something else.
var unasked = anyCell{letter: 'u', denier: noDenier}

// anyCellOf asks about so many groups of ports of one cell.
func anyCellOf(m *explain.Matrix, from, to, most int) anyCell {
	spans, whole, err := m.Spans(from, to, most)
	if err != nil {
		return unasked
	}
	return anyCellOfSpans(spans, whole)
}

func anyCellOfSpans(spans []explain.Span, whole bool) anyCell {
	var allowed []policy.Port
	var blocked, differs bool
	unknown := !whole
	deniers := map[byte]bool{}
	for _, s := range spans {
		actual, wanted := s.Egress.With(s.Ingress)
		differs = differs || actual != wanted
		switch actual {
		case explain.Allowed:
			allowed = append(allowed, s.Port)
		case explain.Blocked:
			blocked, deniers[denierOf(s.Egress, s.Ingress)] = true, true
		case explain.Unknown:
			unknown = true
		}
	}
	out := anyCell{letter: 'b', denier: noDenier, ports: portsAllowed(allowed)}
	switch {
	case len(allowed) > 0 && (blocked || unknown):
		out.letter = partly
	case len(allowed) > 0:
		out.letter = 'a'
	case unknown:
		out.letter = 'u'
	default:
		out.denier = everyDenier(deniers)
	}
	if len(allowed) > 0 && unknown {
		out.ports += "; of others it is not known"
	}
	if differs {
		out.letter -= 'a' - 'A'
	}
	return out
}

// everyDenier is who denies all ports: one end, or between them both.
func everyDenier(deniers map[byte]bool) byte {
	for _, who := range []byte{'e', 'i'} {
		if deniers[who] && len(deniers) == 1 {
			return who
		}
	}
	return 'x'
}

// portsAllowed writes ports, which are sorted by protocol and number.
func portsAllowed(ports []policy.Port) string {
	if len(ports) == 0 {
		return ""
	}
	var merged []policy.Port
	for _, p := range ports {
		if n := len(merged) - 1; n >= 0 && merged[n].Protocol == p.Protocol && int(merged[n].Last)+1 == int(p.First) {
			merged[n].Last = p.Last
			continue
		}
		merged = append(merged, p)
	}
	every := func(p policy.Port) bool { return p.First == 1 && p.Last == math.MaxUint16 }
	if len(merged) == len(policy.Protocols()) && !slices.ContainsFunc(merged, func(p policy.Port) bool { return !every(p) }) {
		return "every port"
	}
	var words []string
	for _, p := range merged {
		switch {
		case every(p):
			words = append(words, fmt.Sprintf("every %s port", p.Protocol))
		case p.First == p.Last:
			words = append(words, portText(p))
		default:
			words = append(words, fmt.Sprintf("%d-%d/%s", p.First, p.Last, p.Protocol))
		}
	}
	if more := len(words) - shownRanges; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(words[:shownRanges], ", "), more)
	}
	return strings.Join(words, ", ")
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
