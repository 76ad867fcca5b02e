package simulate

import (
	"fmt"
	"io"
	"strings"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/printable"
	"github.com/winnpm/winnpm/tool/explain"
)

// grid is the matrix of one port: rows open connections to columns.
type grid struct {
	port  port
	names []string // sorted
	pods  int
	cells [][]byte // by from and to; 0: not asked
	some  bool     // a cell was asked
	half  bool     // a cell is not known
}

// gridColumns is the number of rows up to which there is a column for each.
const gridColumns = 80

func newGrid(p port, rows []gridRow) *grid {
	g := &grid{port: p, cells: make([][]byte, len(rows))}
	for i, r := range rows {
		g.names = append(g.names, r.name)
		g.pods += r.count
		g.cells[i] = make([]byte, len(rows))
	}
	return g
}

func (g *grid) put(from, to int, c byte) {
	g.cells[from][to] = c
	g.some, g.half = true, g.half || c == '?'
}

const (
	legend = "+ allowed, E the sender's policies block, I the receiver's do, X both do"
	// halfLegend is for a matrix of one node.
	halfLegend = ", ? not known: the end that blocks nothing is here, the other one on another node"
)

// symbol returns the letter for the verdicts of both ends; nil means that an end is not judged here.
func symbol(egress, ingress *explain.Half) byte {
	blocks := func(h *explain.Half) bool { return h != nil && h.Actual == explain.Blocked }
	switch {
	case blocks(egress) && blocks(ingress):
		return 'X'
	case blocks(egress):
		return 'E'
	case blocks(ingress):
		return 'I'
	case egress == nil || ingress == nil:
		return '?'
	}
	return '+'
}

// size says of how many pods the rows are, where they are not one each.
func (g *grid) size() string {
	if g.pods == len(g.names) {
		return ""
	}
	return fmt.Sprintf(", %d workloads of %d pods", len(g.names), g.pods)
}

func (g *grid) write(b io.Writer) {
	names := g.names
	words := legend
	if g.half {
		words += halfLegend
	}
	say(b, "\nMATRIX %d/%s%s: row connects to column; %s\n", g.port.number, g.port.protocol, g.size(), words)
	width := 0
	for _, name := range names {
		width = max(width, len(printable.Line(name)))
	}
	if len(names) > gridColumns {
		g.summary(b, names, width)
		return
	}
	fmt.Fprintf(b, "  %*s", width+3, "")
	for i := range names {
		fmt.Fprintf(b, "%3d", i+1)
	}
	fmt.Fprintln(b)
	for i, from := range names {
		var row strings.Builder
		for j, c := range g.cells[i] {
			switch {
			case c == 0 && i == j:
				c = '.'
			case c == 0:
				c = ' '
			}
			fmt.Fprintf(&row, "  %c", c)
		}
		say(b, "  %2d %-*s%s\n", i+1, width, from, strings.TrimRight(row.String(), " "))
	}
}

// summary counts the cells of each row.
func (g *grid) summary(b io.Writer, names []string, width int) {
	for i, from := range names {
		var count [256]int
		for _, c := range g.cells[i] {
			count[c]++
		}
		say(b, "  %-*s  + %d  E %d  I %d  X %d", width, from, count['+'], count['E'], count['I'], count['X'])
		if g.half {
			say(b, "  ? %d", count['?'])
		}
		say(b, "\n")
	}
}

// textTrace writes one traced verdict with what decided.
func (v Verdict) textTrace(b io.Writer, names explain.SetNames) {
	word := explain.Unknown
	switch {
	case v.Allowed == nil:
	case *v.Allowed:
		word = explain.Allowed
	default:
		word = explain.Blocked
	}
	say(b, "\nTRACE %s->%s:%d/%s  %s\n", v.From, v.To, v.Port, v.Protocol, strings.ToUpper(string(word)))
	v.Egress.write(b, v.From, names, policy.Egress)
	if v.fromOther {
		say(b, "  %s of %s: not judged, %s is the address of a node that may be another one: --node says which one is asked\n", policy.Ingress, v.To, v.From)
		return
	}
	v.Ingress.write(b, v.To, names, policy.Ingress)
}

// write writes the rule or policy that decided at one end.
func (s *Side) write(b io.Writer, of string, names explain.SetNames, dir policy.Direction) {
	say(b, "  %s of %s: %s\n", dir, of, s.text(dir))
	if s == nil {
		return
	}
	for _, a := range s.Rules {
		say(b, "    %s %s %d  %s  %s  %s\n", a.Direction, a.Action, a.Priority, names.Peer(a), explain.PortsText(a), owner(a))
	}
}

// text returns the rule or policy that decided at one end, in one line.
func (s *Side) text(dir policy.Direction) string {
	if s == nil {
		return "on another node, not judged here"
	}
	var text string
	switch {
	case s.Rule != nil && s.Allowed:
		text = "allowed by " + s.Text()
	case s.Rule != nil:
		text = "BLOCKED by " + s.Text()
	case s.Allowed && s.Policy != "":
		text = "allowed by policy " + s.Policy
	case s.Allowed:
		text = "allowed, no policy decides"
	case s.Policy != "":
		text = fmt.Sprintf("BLOCKED: policy %s isolates it for %s and no rule allows this", s.Policy, dir)
	default:
		text = "BLOCKED by a rule of the CNI"
	}
	return text
}
