package simulate

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/tool/explain"
)

func (r Result) writeText(ctx context.Context, w io.Writer) error {
	b := bufio.NewWriter(w)
	r.textSets(b)
	r.textEndpoints(b)
	for _, port := range r.matrix {
		g, err := r.grid(ctx, port)
		if err != nil {
			return err
		}
		if g.some {
			g.write(b)
		}
	}
	for _, v := range r.Traces {
		v.textTrace(b)
	}
	r.textCalls(b)
	if len(r.Warnings) > 0 {
		fmt.Fprintf(b, "\nWARNINGS (%d)\n", len(r.Warnings))
		for _, w := range r.Warnings {
			printLine(b, "  %s %s: %s: %s", w.Kind, w.Object, w.Reason, w.Message)
		}
	}
	return b.Flush()
}

// printLine writes one line with unprintable characters escaped. It ignores errors, which Flush of a
// bufio.Writer returns.
func printLine(w io.Writer, format string, values ...any) {
	fmt.Fprintln(w, cli.Printable(fmt.Sprintf(format, values...)))
}

// printRow writes a row of a table with unprintable characters escaped.
func printRow(t *tabwriter.Writer, cells ...string) {
	for i := range cells {
		cells[i] = cli.Printable(cells[i])
	}
	fmt.Fprintln(t, strings.Join(cells, "\t"))
}

func (r Result) textSets(b io.Writer) {
	names := r.setNames()
	fmt.Fprintf(b, "SETS (%d)\n", len(r.Sets))
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, s := range r.Sets {
		values := s.Values
		if s.Type == hns.NestedIPSet {
			values = slices.Sorted(slices.Values(names.Of(values)))
		}
		printRow(t, "  "+s.Name, string(s.Type), cmp.Or(strings.Join(values, " "), "(empty)"))
	}
	_ = t.Flush() // the bufio.Writer returns the error from its Flush
}

func (r Result) setNames() explain.SetNames {
	names := explain.SetNames{}
	for _, s := range r.Sets {
		names[s.ID] = s.Name
	}
	return names
}

// textEndpoints writes the endpoints with our rules by direction and priority, and lists the pods of
// endpoints without such rules.
func (r Result) textEndpoints(b io.Writer) {
	names := r.setNames()
	fmt.Fprintf(b, "\nACLS (%d endpoints, beside the CNI's own rules)\n", len(r.Endpoints))
	var open []string
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, e := range r.Endpoints {
		if len(e.ACLs) == 0 {
			open = append(open, e.Pod)
			continue
		}
		printRow(t, "  "+e.Pod+" "+e.IP)
		acls := slices.SortedStableFunc(slices.Values(e.ACLs), func(a, b hns.ACL) int {
			return cmp.Or(cmp.Compare(a.Direction, b.Direction), cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.ID, b.ID))
		})
		for _, a := range acls {
			printRow(t, "    "+string(a.Direction), string(a.Action), strconv.Itoa(int(a.Priority)), names.Peer(a), explain.PortsText(a), cmp.Or(explain.PolicyOf(a.ID), "("+strings.TrimPrefix(a.ID, hns.ACLIDPrefix+"npm-")+")"))
		}
	}
	_ = t.Flush()
	if len(open) > 0 {
		printLine(b, "  open, as no policy selects them: %s", strings.Join(open, " "))
	}
}

func (r Result) textCalls(b io.Writer) {
	words := []string{"CALLS "}
	for _, op := range slices.Sorted(maps.Keys(r.Calls)) {
		words = append(words, fmt.Sprintf("%s %d", op, r.Calls[op]))
	}
	fmt.Fprintln(b)
	printLine(b, "%s", strings.Join(words, " "))
}

// grid is the matrix of one port. Rows connect to columns.
type grid struct {
	port  explain.Question
	names []string // sorted
	pods  int
	cells [][]byte // by row and column: a letter of symbol, '.' for itself, ' ' if not judged
	some  bool     // at least one cell is judged
	half  bool     // at least one cell is '?'
}

// gridColumns is the largest number of rows for which the columns are shown. A larger grid is summarized.
const gridColumns = 80

// grid computes the matrix of a port.
func (r Result) grid(ctx context.Context, port explain.Question) (*grid, error) {
	g := &grid{port: port, cells: make([][]byte, len(r.rows))}
	for i, row := range r.rows {
		g.names = append(g.names, row.name)
		g.pods += row.count
		g.cells[i] = bytes.Repeat([]byte(" "), len(r.rows))
		g.cells[i][i] = '.'
	}
	err := r.judge.cells(ctx, r.rows, port, func(from, to int, a answer) error {
		c := symbol(a.egress, a.ingress)
		g.cells[from][to] = c
		g.some, g.half = true, g.half || c == '?'
		return nil
	})
	return g, err
}

const (
	legend = "+ allowed, E the sender's policies block, I the receiver's do, X both do"
	// halfLegend is added if cells are '?', which occurs in a matrix of one node.
	halfLegend = ", ? not known: the end that blocks nothing is here, the other one on another node"
)

// symbol returns the letter of a cell for the verdicts at both ends. nil is an end that is not judged here.
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

func (g *grid) write(b io.Writer) {
	names := g.names
	words := legend
	if g.half {
		words += halfLegend
	}
	size := ""
	if g.pods > len(names) {
		size = fmt.Sprintf(", %d workloads of %d pods", len(names), g.pods)
	}
	fmt.Fprintln(b)
	printLine(b, "MATRIX %d/%s%s: row connects to column; %s", g.port.Port, g.port.Protocol, size, words)
	width := 0
	for _, name := range names {
		width = max(width, len(cli.Printable(name)))
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
		for _, c := range g.cells[i] {
			fmt.Fprintf(&row, "  %c", c)
		}
		printLine(b, "  %2d %-*s%s", i+1, width, from, strings.TrimRight(row.String(), " "))
	}
}

// summary writes the number of cells of each letter for each row.
func (g *grid) summary(b io.Writer, names []string, width int) {
	for i, from := range names {
		var count [256]int
		for _, c := range g.cells[i] {
			count[c]++
		}
		unknown := ""
		if g.half {
			unknown = fmt.Sprintf("  ? %d", count['?'])
		}
		printLine(b, "  %-*s  + %d  E %d  I %d  X %d%s", width, from, count['+'], count['E'], count['I'], count['X'], unknown)
	}
}

// textTrace writes a verdict, and the deciding rule or policy at each end.
func (v Verdict) textTrace(b io.Writer) {
	word := explain.Unknown
	switch {
	case v.Allowed == nil:
	case *v.Allowed:
		word = explain.Allowed
	default:
		word = explain.Blocked
	}
	fmt.Fprintln(b)
	printLine(b, "TRACE %s->%s:%d/%s  %s", v.From, v.To, v.Port, v.Protocol, strings.ToUpper(string(word)))
	printLine(b, "  %s of %s: %s", policy.Egress, v.From, v.Egress.text(policy.Egress))
	printLine(b, "  %s of %s: %s", policy.Ingress, v.To, v.Ingress.text(policy.Ingress))
}

// text returns in one line the verdict at one end and the rule or policy that decides.
func (s *Side) text(dir policy.Direction) string {
	if s == nil {
		return "not judged here: the other node decides, --node says which one is asked"
	}
	switch {
	case s.Rule != nil && s.Allowed:
		return "allowed by " + s.Text()
	case s.Rule != nil:
		return "BLOCKED by " + s.Text()
	case s.Allowed && s.Policy != "":
		return "allowed by policy " + s.Policy
	case s.Allowed:
		return "allowed, no policy decides"
	case s.Policy != "":
		return fmt.Sprintf("BLOCKED: policy %s isolates it for %s and no rule allows this", s.Policy, dir)
	}
	return "BLOCKED by a rule of the CNI"
}

// writeJSON writes a result. It writes verdicts one by one, as there may be millions.
func (r Result) writeJSON(ctx context.Context, w io.Writer) error {
	out := bufio.NewWriter(w) // its Flush returns the first error of a write
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	put := func(before string, v any) error {
		_, _ = out.WriteString(before)
		return enc.Encode(v)
	}
	separator := ""
	next := func(v any) error { // the next element of a list
		err := put(separator, v)
		separator = ","
		return err
	}
	err := put(`{"sets":`, r.Sets)
	_, _ = out.WriteString(`,"endpoints":[`)
	for _, e := range r.Endpoints {
		err = cmp.Or(err, next(e))
	}
	_, _ = out.WriteString(`],"verdicts":[`)
	separator = ""
	err = cmp.Or(err, r.verdicts(ctx, func(v Verdict) error { return next(v) }))
	if err != nil {
		return err
	}
	_, _ = out.WriteString("]")
	if len(r.Workloads) > 0 {
		err = put(`,"workloads":`, r.Workloads)
	}
	err = cmp.Or(err, put(`,"calls":`, r.Calls), put(`,"warnings":`, r.Warnings))
	_, _ = out.WriteString("}\n")
	return cmp.Or(err, out.Flush())
}
