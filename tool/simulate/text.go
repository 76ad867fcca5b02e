package simulate

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/printable"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/explain"
)

// writeText writes a result for a person: names instead of ids.
func (r Result) writeText(w io.Writer) error {
	b := bufio.NewWriter(w)
	r.textSets(b)
	r.textEndpoints(b)
	if err := r.textVerdicts(b); err != nil {
		return err
	}
	r.textCalls(b)
	if len(r.Warnings) > 0 {
		fmt.Fprintf(b, "\nWARNINGS (%d)\n", len(r.Warnings))
		for _, w := range r.Warnings {
			say(b, "  %s %s: %s: %s\n", w.Kind, w.Object, w.Reason, w.Message)
		}
	}
	return b.Flush()
}

// say is fmt.Fprintf, which fails in a bufio.Writer's Flush only. The values may be
// anybody's: none ends the line, or a cell of a table.
func say(w io.Writer, format string, values ...any) {
	for i, v := range values {
		if _, number := v.(int); !number { // which may be a width
			values[i] = others{v}
		}
	}
	fmt.Fprintf(w, format, values...)
}

// others is a value from untrusted input. It is formatted as usual, but on one printable line.
type others struct{ value any }

// Format implements fmt.Formatter.
func (o others) Format(f fmt.State, verb rune) {
	_, _ = io.WriteString(f, printable.Line(fmt.Sprintf(fmt.FormatString(f, verb), o.value))) // it fails as say does
}

// textSets writes the sets as rows; members of nested sets by name.
func (r Result) textSets(b io.Writer) {
	names := r.setNames()
	fmt.Fprintf(b, "SETS (%d)\n", len(r.Sets))
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, s := range r.Sets {
		values := s.Values
		if s.Type == hns.NestedIPSet {
			values = slices.Sorted(slices.Values(names.Of(values)))
		}
		text := cmp.Or(strings.Join(values, " "), "(empty)")
		say(t, "  %s\t%s\t%s\n", s.Name, s.Type, text)
	}
	flush(t)
}

func (r Result) setNames() explain.SetNames {
	names := explain.SetNames{}
	for _, s := range r.Sets {
		names[s.ID] = s.Name
	}
	return names
}

// textEndpoints writes the endpoints with our rules, in the order in which they
// count, and only counts the others.
func (r Result) textEndpoints(b io.Writer) {
	names := r.setNames()
	fmt.Fprintf(b, "\nACLS (%d endpoints, beside the CNI's own rules)\n", r.EndpointCount)
	var open []string
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for e := range r.Endpoints {
		if len(e.ACLs) == 0 {
			open = append(open, e.Pod)
			continue
		}
		say(t, "  %s %s\n", e.Pod, e.IP)
		acls := slices.SortedStableFunc(slices.Values(e.ACLs), func(a, b hns.ACL) int {
			return cmp.Or(cmp.Compare(a.Direction, b.Direction), cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.ID, b.ID))
		})
		for _, a := range acls {
			say(t, "    %s\t%s\t%d\t%s\t%s\t%s\n", a.Direction, a.Action, a.Priority, names.Peer(a), explain.PortsText(a), owner(a))
		}
	}
	flush(t)
	if len(open) > 0 {
		say(b, "  open, as no policy selects them: %s\n", strings.Join(open, " "))
	}
}

// owner returns the owner of a rule.
func owner(a hns.ACL) string {
	if name, ok := state.ClusterPolicyOfACL(a.ID); ok {
		return "ClusterNetworkPolicy/" + name
	}
	if key, ok := state.PolicyOfACL(a.ID); ok {
		return key.String()
	}
	if !a.Ours() {
		return "(the CNI's)"
	}
	return "(" + strings.TrimPrefix(a.ID, hns.ACLIDPrefix+"npm-") + ")"
}

// textVerdicts writes one grid for each port of the matrix, and a line for
// every trace.
func (r Result) textVerdicts(b io.Writer) error {
	for g, err := range r.Grids {
		if err != nil {
			return err
		}
		if g.some {
			g.write(b)
		}
	}
	names := r.setNames()
	for v, err := range r.Traces {
		if err != nil {
			return err
		}
		v.textTrace(b, names)
	}
	return nil
}

// textCalls writes how many HNS requests it took.
func (r Result) textCalls(b io.Writer) {
	fmt.Fprint(b, "\nCALLS ")
	for _, op := range slices.Sorted(maps.Keys(r.Calls)) {
		say(b, " %s %d", op, r.Calls[op])
	}
	fmt.Fprintln(b)
}

// flush ends a table. The writer below is buffered and keeps its error until
// its own Flush.
func flush(t *tabwriter.Writer) { _ = t.Flush() }
