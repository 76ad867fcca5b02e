package whatif

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/explain"
	"github.com/winnpm/winnpm/pkg/printable"
)

// How much of a list a person is shown.
const (
	shownFlips = 40
	shownEnds  = 3
	shownSets  = 12
	shownNodes = 10
	shownName  = 60 // characters of the name of a set, which lists blocks
)

// WriteText writes the plan for a person: the numbers, what flips, and what is
// written where.
func (p Plan) WriteText(w io.Writer) error {
	b := &printable.Page{}
	p.textSummary(b)
	p.textFlips(b, "FLIPS between pods", p.Flips)
	p.textFlips(b, "FLIPS with addresses outside", p.Outside)
	p.textNodes(b)
	if len(p.Warnings) > 0 {
		b.Line(0, "")
		b.Line(0, "WARNINGS (%d)", len(p.Warnings))
		for _, w := range p.Warnings {
			b.Line(1, "%s %s: %s: %s", w.Kind, w.Object, w.Reason, w.Message)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (p Plan) textSummary(b *printable.Page) {
	for _, c := range p.Policies {
		b.Line(0, "%s: %s", c.Policy, c.Change)
	}
	if len(p.Flips)+len(p.Outside)+len(p.Nodes) == 0 {
		b.Line(0, "Nothing changes: none of %s between %s flips, and no node is written to.", count(p.Connections, "connection"), count(p.Pods, "pod"))
		return
	}
	verb := "flip"
	if p.Flipped == 1 {
		verb = "flips"
	}
	b.Line(0, "%d of %s between %s %s: %d blocked, %d opened. %d of %s written to.", p.Flipped, count(p.Connections, "connection"),
		count(p.Pods, "pod"), verb, p.Blocked, p.Opened, len(p.Nodes), count(p.NodesSeen, "node"))
}

// row is flips that differ in their ends alone.
type row struct {
	from, to []string
	what     string
}

// rows joins flips that say the same: first those to one end, then those from
// the same ends.
func (p Plan) rows(flips []Flip) []row {
	sizes := map[string]string{}
	for _, w := range p.Workloads {
		sizes[w.Name] = fmt.Sprintf("%s (%s)", w.Name, count(len(w.Pods), "pod"))
	}
	var rows []row
	merge := func(r row, same func(row) bool, into func(*row)) {
		if i := slices.IndexFunc(rows, same); i >= 0 {
			into(&rows[i])
			return
		}
		rows = append(rows, r)
	}
	for _, f := range flips {
		r := row{from: []string{cmp.Or(sizes[f.From], f.From)}, to: []string{cmp.Or(sizes[f.To], f.To)}, what: f.text()}
		merge(r, func(s row) bool { return s.what == r.what && s.to[0] == r.to[0] }, func(s *row) { s.from = append(s.from, r.from...) })
	}
	first := rows
	rows = nil
	for _, r := range first {
		merge(r, func(s row) bool { return s.what == r.what && slices.Equal(s.from, r.from) }, func(s *row) { s.to = append(s.to, r.to...) })
	}
	return rows
}

func (p Plan) textFlips(b *printable.Page, title string, flips []Flip) {
	if len(flips) == 0 {
		return
	}
	rows := p.rows(flips)
	b.Line(0, "")
	b.Line(0, "%s", title)
	for i, r := range rows {
		if i == shownFlips-1 && len(rows) > shownFlips {
			b.Line(1, "and %d more lines; -o json has everything", len(rows)-i)
			break
		}
		b.Line(1, "%s -> %s: %s", p.endsText(r.from), p.endsText(r.to), r.what)
	}
}

// endsText names workloads, or addresses as one group of them.
func (p Plan) endsText(names []string) string {
	var some []Addresses
	for _, a := range p.Addresses {
		if slices.Contains(names, a.Name) {
			some = append(some, a)
		}
	}
	switch {
	case len(some) > 1:
		return together(some)
	case len(names) > shownEnds:
		names = append(slices.Clone(names[:shownEnds-1]), fmt.Sprintf("%d others", len(names)-shownEnds+1))
	}
	return strings.Join(names, ", ")
}

// text says what flips, and why.
func (f Flip) text() string {
	text := fmt.Sprintf("%s  %s -> %s", portsText(f.Ports), f.Before, f.After)
	switch {
	case len(f.By) > 0:
		return text + " by " + strings.Join(f.By, ", ")
	case f.After == explain.Allowed:
		return text + ", no policy isolates it"
	}
	return text
}

func (p Plan) textNodes(b *printable.Page) {
	if len(p.Nodes) == 0 {
		return
	}
	b.Line(0, "")
	b.Line(0, "WRITES")
	for i, n := range p.Nodes {
		if i == shownNodes-1 && len(p.Nodes) > shownNodes {
			b.Line(1, "and on %d more nodes; -o json has everything", len(p.Nodes)-i)
			break
		}
		n.text(b)
	}
}

func (n NodeChange) text(b *printable.Page) {
	b.Line(1, "%s: %s, +%d -%d ACLs on %s", cmp.Or(n.Node, "pods without a node"), setsText(n.Sets), n.ACLsAdded, n.ACLsRemoved, count(n.Endpoints, "endpoint"))
	for i, s := range n.Sets {
		if i == shownSets-1 && len(n.Sets) > shownSets {
			b.Line(2, "and %d more sets", len(n.Sets)-i)
			break
		}
		b.Line(2, "%s", s.text())
	}
	var calls []string
	for _, op := range slices.Sorted(maps.Keys(n.Calls)) {
		calls = append(calls, fmt.Sprintf("%s %d", op, n.Calls[op]))
	}
	b.Line(2, "HNS requests: %s; %d bytes written", strings.Join(calls, ", "), n.Bytes)
	for _, line := range n.Requests {
		b.Line(3, "%s", line)
	}
}

// setsText counts sets by what becomes of them.
func setsText(sets []SetChange) string {
	counts := map[string]int{}
	for _, s := range sets {
		counts[s.Change]++
	}
	var words []string
	for _, change := range []string{added, changed, removed} {
		if counts[change] > 0 {
			words = append(words, fmt.Sprintf("%s %s", count(counts[change], "set"), change))
		}
	}
	return cmp.Or(strings.Join(words, ", "), "no set changes")
}

func (s SetChange) text() string {
	name := s.Name
	if runes := []rune(name); len(runes) > shownName {
		name = string(runes[:shownName-1]) + "…"
	}
	switch s.Change {
	case added:
		return fmt.Sprintf("+ %s  %s", name, count(s.Members, "member"))
	case removed:
		return fmt.Sprintf("- %s  %s", name, count(s.Members, "member"))
	}
	return fmt.Sprintf("~ %s  +%d -%d members", name, s.Joined, s.Left)
}

// count says how many there are of something.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
