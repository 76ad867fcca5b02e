package plan

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/tool/cluster"
	"github.com/winnpm/winnpm/tool/explain"
	"github.com/winnpm/winnpm/tool/phrase"
)

// The limits of lists in the text, unless --all is given.
const (
	shownFlips     = 40
	shownEnds      = 3
	shownSets      = 12
	shownNodes     = 10
	shownUnchanged = 8  // objects, each on its own line
	shownName      = 60 // characters of a set's name, which may list blocks
	shownRanges    = 6
	shownBlocks    = 3
)

// report is the text of a plan.
type report struct {
	cli.Page
	Plan
	all bool // omit nothing
}

// most returns the limit n, or no limit if all is set.
func (r *report) most(n int) int {
	if r.all {
		return math.MaxInt
	}
	return n
}

// more writes the number of omitted entries of a list.
func (r *report) more(indent, n int, what string) {
	if n > 0 {
		r.Line(indent, "and %d more %s; --all shows them", n, what)
	}
}

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

// WriteText writes the plan as text: the counts, the flips, and the writes on each node. If all is set, it
// omits nothing.
func (p Plan) WriteText(w io.Writer, all bool) error {
	r := &report{Plan: p, all: all}
	for _, line := range slices.Concat(r.changesText(), []string{p.Headline()}, p.othersText()) {
		r.Line(0, "%s", line)
	}
	for _, s := range p.sections() {
		r.Line(0, "")
		r.Line(0, "%s", s.title)
		rows, more := shown(p.rows(s.flips), r.most(shownFlips))
		for _, row := range rows {
			r.Line(1, "%s -> %s: %s", r.endsText(row.from), r.endsText(row.to), row.what)
		}
		r.more(1, more, "lines")
	}
	if len(p.Nodes) > 0 {
		r.Line(0, "")
		r.Line(0, "WRITES")
		nodes, more := shown(p.Nodes, r.most(shownNodes))
		for _, n := range nodes {
			r.writes(n)
		}
		r.more(1, more, "nodes")
	}
	if len(p.Warnings) > 0 {
		r.Line(0, "")
		r.Line(0, "WARNINGS (%d)", len(p.Warnings))
		for _, w := range p.Warnings {
			r.Line(1, "%s %s: %s: %s", w.Kind, w.Object, w.Reason, w.Message)
		}
	}
	_, err := io.WriteString(w, r.String())
	return err
}

// WriteMarkdown writes the plan for a pull request: the headline, and the text as a code block, in which
// names cannot become links, mentions or markup.
func (p Plan) WriteMarkdown(w io.Writer, all bool) error {
	var text strings.Builder
	if err := p.WriteText(&text, all); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "**%s**\n\n````\n%s````\n", p.Headline(), text.String())
	return err
}

// changesText returns a line for the change of each policy and object. If many are unchanged, it replaces
// their lines by their number, unless all is set.
func (r *report) changesText() []string {
	var out, changed []string
	add := func(unchanged bool, line string) {
		out = append(out, line)
		if !unchanged {
			changed = append(changed, line)
		}
	}
	for _, c := range r.Policies {
		add(c.Change == cluster.Unchanged && !c.NoLonger, c.Policy+": "+c.text())
	}
	for _, o := range r.Objects {
		add(o.Change == cluster.Unchanged, o.Kind+" "+o.Object+": "+objectText(o))
	}
	same := len(out) - len(changed)
	if same <= r.most(shownUnchanged) {
		return out
	}
	return append(changed, fmt.Sprintf("%d objects are unchanged; --all names them", same))
}

func objectText(o cluster.ObjectChange) string {
	text := o.Change
	if o.Pods > 0 || o.Kind != "Node" {
		text += ", " + phrase.Count(o.Pods, "pod")
	}
	if o.Change == cluster.IsNew || o.Change == cluster.Deleted {
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

func (c PolicyChange) text() string {
	switch {
	case c.NoLonger && c.Change != cluster.Deleted:
		return c.Change + ", selects no pod any more"
	case c.SelectsNothing && c.Change != cluster.Deleted:
		return c.Change + ", selects no pod"
	}
	return c.Change
}

// Headline summarizes the plan in one line, the most dangerous change first: opened, unknown, then blocked
// connections.
func (p Plan) Headline() string {
	all := fmt.Sprintf("%s between %s", phrase.Count(p.Connections, "connection"), phrase.Count(p.Pods, "pod"))
	if len(p.Flips)+len(p.Outside)+len(p.Nodes)+p.NewPods.Pods+p.DeletedPods.Pods == 0 {
		return fmt.Sprintf("Nothing changes: none of %s flips, and no node is written to.", all)
	}
	writes := fmt.Sprintf("%d of %s written to.", len(p.Nodes), phrase.Count(p.NodesSeen, "node"))
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

// row is flips that differ only in their ends.
type row struct {
	from, to []string
	what     string
}

// rows joins flips with equal texts: first flips to the same end, then flips from the same ends.
func (p Plan) rows(flips []Flip) []row {
	sizes := map[string]string{}
	for _, w := range p.Workloads {
		sizes[w.Name] = fmt.Sprintf("%s (%s)", w.Name, phrase.Count(len(w.Pods), "pod"))
	}
	var to []row
	for _, f := range flips {
		from, dest := cmp.Or(sizes[f.From], f.From), cmp.Or(sizes[f.To], f.To)
		to = append(to, row{from: []string{from}, to: []string{dest}, what: f.text()})
	}
	to = merged(to, func(r row) [2]string { return [2]string{r.what, r.to[0]} }, func(into *row, r row) { into.from = append(into.from, r.from...) })
	return merged(to, func(r row) [2]string { return [2]string{r.what, strings.Join(r.from, "\n")} }, func(into *row, r row) { into.to = append(into.to, r.to...) })
}

// merged merges rows with the same key into the first of them.
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

// endsText joins the names of ends. Several groups of addresses get one name.
func (r *report) endsText(names []string) string {
	some := slices.DeleteFunc(slices.Clone(r.Addresses), func(a Addresses) bool { return !slices.Contains(names, a.Name) })
	if len(some) > 1 {
		return nameOfAll(some)
	}
	if most := r.most(shownEnds); len(names) > most {
		names = append(slices.Clone(names[:most-1]), fmt.Sprintf("%d others", len(names)-most+1))
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

// writes writes the lines about the writes on a node.
func (r *report) writes(n NodeChange) {
	name := cmp.Or(n.Node, "pods without a node")
	r.Line(1, "%s: %s, +%d -%d ACLs on %s", name, setsText(n.Sets), n.ACLsAdded, n.ACLsRemoved, phrase.Count(n.Endpoints, "endpoint"))
	sets, more := shown(n.Sets, r.most(shownSets))
	for _, s := range sets {
		r.Line(2, "%s", s.text(r.most(shownName)))
	}
	r.more(2, more, "sets")
	var calls []string
	for _, op := range slices.Sorted(maps.Keys(n.Calls)) {
		calls = append(calls, fmt.Sprintf("%s %d", op, n.Calls[op]))
	}
	r.Line(2, "HNS requests: %s; %d bytes written", strings.Join(calls, ", "), n.Bytes)
}

// setsText returns the numbers of added, changed and removed sets.
func setsText(sets []SetChange) string {
	counts := map[string]int{}
	for _, s := range sets {
		counts[s.Change]++
	}
	var parts []string
	for _, change := range []string{added, cluster.Changed, removed} {
		if counts[change] > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", phrase.Count(counts[change], "set"), change))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "no set changes")
}

func (s SetChange) text(most int) string {
	name := s.Name
	if runes := []rune(name); len(runes) > most {
		name = string(runes[:most-1]) + "…"
	}
	switch s.Change {
	case added:
		return fmt.Sprintf("+ %s  %s", name, phrase.Count(s.Members, "member"))
	case removed:
		return fmt.Sprintf("- %s  %s", name, phrase.Count(s.Members, "member"))
	}
	return fmt.Sprintf("~ %s  +%d -%d members", name, s.Joined, s.Left)
}

// others returns the ports that are not in the ranges. The ranges must be joined.
func others(in []explain.Range) []explain.Range {
	e := explain.Edges{}
	for _, r := range in {
		e[r.Protocol] = append(e[r.Protocol], int(r.First), int(r.Last)+1)
	}
	return explain.JoinRanges(slices.DeleteFunc(explain.Split(e), func(r explain.Range) bool {
		return slices.ContainsFunc(in, func(i explain.Range) bool { return i.Protocol == r.Protocol && i.First <= r.First && r.Last <= i.Last })
	}))
}

// portsText lists ranges, which must be joined, or "all but" the other ports if that is shorter.
func portsText(in []explain.Range) string {
	rest := others(in)
	switch {
	case len(rest) == 0:
		return "all ports"
	case len(rest) < len(in) && !slices.ContainsFunc(rest, explain.Range.Whole):
		return "all but " + listText(rest, shownRanges)
	}
	return listText(in, shownRanges)
}

// listText joins the first entries of a list, and adds the number of omitted ones.
func listText[T fmt.Stringer](list []T, most int) string {
	var words []string
	first, more := shown(list, most)
	for _, v := range first {
		words = append(words, v.String())
	}
	if more > 0 {
		words = append(words, fmt.Sprintf("%d more", more))
	}
	return strings.Join(words, ", ")
}

// shown returns the first entries of a list, and the number of omitted ones. They fit on most lines,
// including one for that number.
func shown[T any](list []T, most int) (first []T, more int) {
	if len(list) <= most {
		return list, 0
	}
	return list[:most-1], len(list) - most + 1
}
