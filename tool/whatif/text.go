package whatif

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/tool/explain"
)

// Detail is how much of a list a person is shown.
type Detail struct {
	flips, ends, sets, nodes int
	unchanged                int // objects, each in a line of its own
	name                     int // characters of the name of a set, which lists blocks
}

// The details: Brief fits a screen, Whole lists everything.
var (
	Brief = Detail{flips: 40, ends: 3, sets: 12, nodes: 10, unchanged: 8, name: 60}
	Whole = Detail{math.MaxInt, math.MaxInt, math.MaxInt, math.MaxInt, math.MaxInt, math.MaxInt}
)

// section is a list of flips.
type section struct {
	title string
	flips []Flip
}

// sections returns the lists of flips that are not empty.
func (p Plan) sections() []section {
	return slices.DeleteFunc([]section{
		{"FLIPS between pods", p.Flips}, {"FLIPS with addresses outside", p.Outside},
		{"CONNECTIONS of new pods", p.NewConnections}, {"CONNECTIONS of deleted pods", p.DeletedConnections},
	}, func(s section) bool { return len(s.flips) == 0 })
}

// WriteText writes the plan for a person: the numbers, what flips, and what is
// written where.
func (p Plan) WriteText(w io.Writer, d Detail) error {
	b := &cli.Page{}
	for _, line := range slices.Concat(p.changesText(d), []string{p.Headline()}, p.othersText()) {
		b.Line(0, "%s", line)
	}
	for _, s := range p.sections() {
		b.Line(0, "")
		b.Line(0, "%s", s.title)
		rows, more := shown(p.rows(s.flips), d.flips)
		for _, r := range rows {
			b.Line(1, "%s -> %s: %s", p.endsText(d, r.from), p.endsText(d, r.to), r.what)
		}
		if more > 0 {
			b.Line(1, "and %d more lines; --all shows them", more)
		}
	}
	p.textNodes(b, d)
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

// changesText says in a line each what becomes of policies and other objects. Where many stay
// as they are, they are one line, unless nothing is to be folded.
func (p Plan) changesText(d Detail) []string {
	var out, changed []string
	add := func(folds bool, line string) {
		out = append(out, line)
		if !folds {
			changed = append(changed, line)
		}
	}
	for _, c := range p.Policies {
		add(c.Change == unchanged && !c.NoLonger, c.Policy+": "+c.text())
	}
	for _, o := range p.Objects {
		add(o.Change == unchanged, o.Kind+" "+o.Object+": "+o.text())
	}
	same := len(out) - len(changed)
	if same <= d.unchanged {
		return out
	}
	return append(changed, fmt.Sprintf("%d objects are unchanged; --all names them", same))
}

// text describes the change of an object.
func (o ObjectChange) text() string {
	text := o.Change
	if o.Pods > 0 || o.Kind != "Node" {
		text += ", " + cli.Count(o.Pods, "pod")
	}
	if o.Change == isNew || o.Change == deleted {
		return text
	}
	if o.New > 0 {
		text += fmt.Sprintf(", %d of them new", o.New)
	}
	if o.Deleted > 0 {
		text += fmt.Sprintf(", %d of them deleted", o.Deleted)
	}
	return text
}

// text describes the change of a policy.
func (c PolicyChange) text() string {
	switch {
	case c.NoLonger && c.Change != deleted:
		return c.Change + ", selects no pod any more"
	case c.SelectsNothing && c.Change != deleted:
		return c.Change + ", selects no pod"
	}
	return c.Change
}

// Headline says in one line what changes, the worst first: what is opened, then what is not
// known, then what is blocked.
func (p Plan) Headline() string {
	all := fmt.Sprintf("%s between %s", cli.Count(p.Connections, "connection"), cli.Count(p.Pods, "pod"))
	if len(p.Flips)+len(p.Outside)+len(p.Nodes)+p.NewPods.Pods+p.DeletedPods.Pods == 0 {
		return fmt.Sprintf("Nothing changes: none of %s flips, and no node is written to.", all)
	}
	writes := fmt.Sprintf("%d of %s written to.", len(p.Nodes), cli.Count(p.NodesSeen, "node"))
	if p.Flipped == 0 {
		return fmt.Sprintf("NO FLIPS among %s, nor with addresses outside. %s", all, writes)
	}
	var parts []string
	for _, x := range []struct {
		word              string
		total, withOthers int
	}{
		{"OPENED", p.Opened, p.WithOutside.Opened},
		{"NOT KNOWN", p.Unknown, p.WithOutside.Unknown},
		{"BLOCKED", p.Blocked, p.WithOutside.Blocked},
	} {
		switch {
		case x.total == 0:
		case x.withOthers > 0:
			parts = append(parts, fmt.Sprintf("%s %d, %d of them with addresses outside", x.word, x.total, x.withOthers))
		default:
			parts = append(parts, fmt.Sprintf("%s %d", x.word, x.total))
		}
	}
	for _, x := range []struct {
		word  string
		total int
	}{{"opened", p.Opened}, {"blocked", p.Blocked}} {
		if x.total == 0 {
			parts = append(parts, "none "+x.word)
		}
	}
	return fmt.Sprintf("%s. %d of %s flip. %s", strings.Join(parts, "; "), p.Between.Flipped, all, writes)
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
		sizes[w.Name] = fmt.Sprintf("%s (%s)", w.Name, cli.Count(len(w.Pods), "pod"))
	}
	var to []row
	for _, f := range flips {
		from, dest := cmp.Or(sizes[f.From], f.From), cmp.Or(sizes[f.To], f.To)
		to = append(to, row{from: []string{from}, to: []string{dest}, what: f.text()})
	}
	to = merged(to, func(r row) [2]string { return [2]string{r.what, r.to[0]} }, func(into *row, r row) { into.from = append(into.from, r.from...) })
	return merged(to, func(r row) [2]string { return [2]string{r.what, strings.Join(r.from, "\n")} }, func(into *row, r row) { into.to = append(into.to, r.to...) })
}

// merged merges rows of one key into the first of them.
func merged(rows []row, key func(row) [2]string, into func(*row, row)) (out []row) {
	place := map[[2]string]int{}
	for _, r := range rows {
		if i, ok := place[key(r)]; ok {
			into(&out[i], r)
			continue
		}
		place[key(r)] = len(out)
		out = append(out, r)
	}
	return out
}

// endsText names workloads, or addresses as one group of them.
func (p Plan) endsText(d Detail, names []string) string {
	var some []Addresses
	for _, a := range p.Addresses {
		if slices.Contains(names, a.Name) {
			some = append(some, a)
		}
	}
	switch {
	case len(some) > 1:
		return together(some)
	case len(names) > d.ends:
		names = append(slices.Clone(names[:d.ends-1]), fmt.Sprintf("%d others", len(names)-d.ends+1))
	}
	return strings.Join(names, ", ")
}

// text describes the flips of a row and the policies that decide.
func (f Flip) text() string {
	text := fmt.Sprintf("%s  %s -> %s", portsText(f.Ports), f.Before, f.After)
	switch {
	case f.After == Absent:
		return fmt.Sprintf("%s  %s before", portsText(f.Ports), f.Before)
	case f.Before == Absent:
		text = fmt.Sprintf("%s  %s", portsText(f.Ports), f.After)
	}
	switch {
	case len(f.By) > 0:
		return text + " by " + strings.Join(f.By, ", ")
	case f.After == explain.Allowed:
		return text + ", no policy isolates it"
	}
	return text
}

func (p Plan) textNodes(b *cli.Page, d Detail) {
	if len(p.Nodes) == 0 {
		return
	}
	b.Line(0, "")
	b.Line(0, "WRITES")
	nodes, more := shown(p.Nodes, d.nodes)
	for _, n := range nodes {
		n.text(b, d)
	}
	if more > 0 {
		b.Line(1, "and on %d more nodes; --all shows them", more)
	}
}

func (n NodeChange) text(b *cli.Page, d Detail) {
	b.Line(1, "%s: %s, +%d -%d ACLs on %s", n.Name(), setsText(n.Sets), n.ACLsAdded, n.ACLsRemoved, cli.Count(n.Endpoints, "endpoint"))
	sets, more := shown(n.Sets, d.sets)
	for _, s := range sets {
		b.Line(2, "%s", s.text(d))
	}
	if more > 0 {
		b.Line(2, "and %d more sets; --all shows them", more)
	}
	var calls []string
	for _, op := range slices.Sorted(maps.Keys(n.Calls)) {
		calls = append(calls, fmt.Sprintf("%s %d", op, n.Calls[op]))
	}
	b.Line(2, "HNS requests: %s; %d bytes written", strings.Join(calls, ", "), n.Bytes)
}

// Name is the node's, or words for the pods that are on none yet.
func (n NodeChange) Name() string { return cmp.Or(n.Node, "pods without a node") }

// setsText counts sets by what becomes of them.
func setsText(sets []SetChange) string {
	counts := map[string]int{}
	for _, s := range sets {
		counts[s.Change]++
	}
	var words []string
	for _, change := range []string{added, changed, removed} {
		if counts[change] > 0 {
			words = append(words, fmt.Sprintf("%s %s", cli.Count(counts[change], "set"), change))
		}
	}
	return cmp.Or(strings.Join(words, ", "), "no set changes")
}

func (s SetChange) text(d Detail) string {
	name := s.Name
	if runes := []rune(name); len(runes) > d.name {
		name = string(runes[:d.name-1]) + "…"
	}
	switch s.Change {
	case added:
		return fmt.Sprintf("+ %s  %s", name, cli.Count(s.Members, "member"))
	case removed:
		return fmt.Sprintf("- %s  %s", name, cli.Count(s.Members, "member"))
	}
	return fmt.Sprintf("~ %s  +%d -%d members", name, s.Joined, s.Left)
}

// WriteMarkdown writes the plan for a pull request: the headline, a table of what flips, and
// what is written where.
func (p Plan) WriteMarkdown(w io.Writer, d Detail) error {
	b := &cli.Page{}
	b.Line(0, "**%s**", escaped(p.Headline()))
	for _, line := range p.othersText() {
		b.Line(0, "")
		b.Line(0, "**%s**", escaped(line))
	}
	b.Line(0, "")
	for _, line := range p.changesText(d) {
		b.Line(0, "- %s", escaped(line))
	}
	for _, s := range p.sections() {
		b.Line(0, "")
		b.Line(0, "| from | to | %s |", strings.ToLower(s.title))
		b.Line(0, "|---|---|---|")
		rows, more := shown(p.rows(s.flips), d.flips)
		for _, r := range rows {
			b.Line(0, "| %s | %s | %s |", escaped(p.endsText(d, r.from)), escaped(p.endsText(d, r.to)), escaped(r.what))
		}
		if more > 0 {
			b.Line(0, "| and %d more | | |", more)
		}
	}
	if len(p.Nodes) > 0 {
		b.Line(0, "")
		b.Line(0, "| node | sets | ACLs | endpoints |")
		b.Line(0, "|---|---|---|---|")
		nodes, more := shown(p.Nodes, d.nodes)
		for _, n := range nodes {
			b.Line(0, "| %s | %s | +%d -%d | %d |", escaped(n.Name()), setsText(n.Sets), n.ACLsAdded, n.ACLsRemoved, n.Endpoints)
		}
		if more > 0 {
			b.Line(0, "| and %d more | | | |", more)
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

// joined sorts ranges and merges neighbours.
func joined(in []explain.Range) (out []explain.Range) {
	order := func(r explain.Range) int { return slices.Index(policy.Protocols(), r.Protocol) }
	for _, r := range slices.SortedFunc(slices.Values(in), func(a, b explain.Range) int {
		return cmp.Or(cmp.Compare(order(a), order(b)), cmp.Compare(a.First, b.First))
	}) {
		if n := len(out); n > 0 && out[n-1].Protocol == r.Protocol && int(out[n-1].Last)+1 == int(r.First) {
			out[n-1].Last = r.Last
			continue
		}
		out = append(out, r)
	}
	return out
}

// others returns the ports that are not in ranges, which are joined.
func others(in []explain.Range) []explain.Range {
	e := explain.Edges{}
	for _, r := range in {
		e[r.Protocol] = append(e[r.Protocol], int(r.First), int(r.Last)+1)
	}
	return joined(slices.DeleteFunc(explain.Split(e), func(r explain.Range) bool {
		return slices.ContainsFunc(in, func(i explain.Range) bool { return i.Protocol == r.Protocol && i.First <= r.First && r.Last <= i.Last })
	}))
}

// shownRanges keeps ports on one line.
const shownRanges = 6

// portsText says ranges, which are joined, or what they lack, whichever is less.
func portsText(in []explain.Range) string {
	rest := others(in)
	switch {
	case len(rest) == 0:
		return "all ports"
	case len(rest) < len(in) && !slices.ContainsFunc(rest, explain.Range.Whole):
		return "all but " + rangesText(rest)
	}
	return rangesText(in)
}

func rangesText(in []explain.Range) string { return listText(in, shownRanges) }
