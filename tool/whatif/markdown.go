package whatif

import (
	"fmt"
	"io"
	"strings"

	"github.com/winnpm/winnpm/pkg/printable"
)

// WriteMarkdown writes the plan for a pull request: the headline, a table of what flips, and
// what is written where.
func (p Plan) WriteMarkdown(w io.Writer, d Detail) error {
	b := &printable.Page{}
	b.Line(0, "**%s**", escaped(p.Headline()))
	for _, line := range p.othersText() {
		b.Line(0, "")
		b.Line(0, "**%s**", escaped(line))
	}
	b.Line(0, "")
	for _, line := range p.changesText(d) {
		b.Line(0, "- %s", escaped(line))
	}
	p.table(b, d, "flips between pods", p.Flips)
	p.table(b, d, "flips with addresses outside", p.Outside)
	p.table(b, d, "connections of new pods", p.NewConnections)
	p.table(b, d, "connections of deleted pods", p.DeletedConnections)
	if len(p.Nodes) > 0 {
		b.Line(0, "")
		b.Line(0, "| node | sets | ACLs | endpoints |")
		b.Line(0, "|---|---|---|---|")
		for i, n := range p.Nodes {
			if i == d.nodes-1 && len(p.Nodes) > d.nodes {
				b.Line(0, "| and %d more | | | |", len(p.Nodes)-i)
				break
			}
			b.Line(0, "| %s | %s | +%d -%d | %d |", escaped(n.Name()), setsText(n.Sets), n.ACLsAdded, n.ACLsRemoved, n.Endpoints)
		}
	}
	if len(p.Warnings) > 0 {
		b.Line(0, "")
		b.Line(0, "**Warnings**")
		b.Line(0, "")
		for _, w := range p.Warnings {
			b.Line(0, "- %s %s: %s: %s", escaped(w.Kind), escaped(w.Object), w.Reason, escaped(w.Message))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (p Plan) table(b *printable.Page, d Detail, title string, flips []Flip) {
	if len(flips) == 0 {
		return
	}
	b.Line(0, "")
	b.Line(0, "| from | to | %s |", title)
	b.Line(0, "|---|---|---|")
	rows := p.rows(flips)
	for i, r := range rows {
		if i == d.flips-1 && len(rows) > d.flips {
			b.Line(0, "| and %d more | | |", len(rows)-i)
			break
		}
		b.Line(0, "| %s | %s | %s |", escaped(p.endsText(d, r.from)), escaped(p.endsText(d, r.to)), escaped(r.what))
	}
}

// escaped takes from a text what Markdown would make something else of: of names of others
// comes no link, no mention and no markup.
func escaped(text string) string {
	var b strings.Builder
	for _, r := range text {
		if strings.ContainsRune("\\`*_[]<>|#@&~!", r) {
			fmt.Fprintf(&b, "&#%d;", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
