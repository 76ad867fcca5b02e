package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/agents"
)

// warningsShown limits the warnings of a node without -o wide.
const warningsShown = 5

// statusOptions are the command line of `kubectl npm status` and, in part, of `kubectl npm check`.
type statusOptions struct {
	cluster clusterOptions
	timeout time.Duration
	output  string
}

func newStatus(std cli.Streams) *cobra.Command {
	o := statusOptions{}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the status of every agent of a cluster, and what is not in force",
		Long: `Asks the agent of every node, through the cluster's API server, at the same time: its
version, whether it is ready or why not, what it has still to write, its warnings, and the
policies that are not in force. The worst node comes first. An agent that does not answer
takes no longer than --timeout; 16 are asked at a time.

Exit code: 0 every agent is ready and has nothing to do, 3 one is not ready, has pending
work or a policy that is not in force, 4 one does not answer or is missing, or you may not
list the nodes, so that nobody knows; 1 no such cluster, 2 wrong usage.`,
		Example: `  kubectl npm status
  kubectl npm status --context prod -o wide`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := oneOf(o.output, "text", "wide", "name", "json", "yaml"); err != nil {
				return err
			}
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(cmd.Context(), std)
		},
	}
	o.flags(cmd)
	cmd.Flags().StringVarP(&o.output, "output", "o", "text", "text, wide, name, json or yaml")
	return cmd
}

func (o *statusOptions) flags(cmd *cobra.Command) {
	o.cluster.agentFlags(cmd)
	cmd.Flags().DurationVar(&o.timeout, "timeout", 10*time.Second, "maximum time to wait for an agent's answer")
}

func (o *statusOptions) validate() error {
	if o.timeout <= 0 {
		return fmt.Errorf("--timeout %v: it must be above 0", o.timeout)
	}
	return nil
}

// nodeStatus is the status of the agent of one node.
type nodeStatus struct {
	Node    string `json:"node"`
	Agent   string `json:"agent,omitempty"` // namespace/name of its pod
	Version string `json:"version,omitempty"`
	// Answer is the reason why the agent gave no status; "" if it gave one.
	Answer     string          `json:"noAnswer,omitempty"`
	Ready      bool            `json:"ready"`
	Reason     string          `json:"reason,omitempty"` // why it is not ready
	Pods       int             `json:"pods"`
	Pending    int             `json:"pending"`    // number of pending endpoint updates
	SetsBehind int             `json:"setsBehind"` // number of sets that differ from their desired state in HNS
	NotInForce []string        `json:"notInForce"` // policies
	Warnings   []state.Warning `json:"warnings"`
}

// code returns the exit code of a node.
func (n nodeStatus) code() int {
	switch {
	case n.Answer != "":
		return exitUnknown
	case !n.Ready || n.Pending+n.SetsBehind+len(n.NotInForce) > 0:
		return exitBlocked
	}
	return 0
}

// clusterStatus is the status of all agents.
type clusterStatus struct {
	Nodes []nodeStatus `json:"nodes"`
	// Note says which nodes were not looked for.
	Note string `json:"note,omitempty"`
}

// code returns the exit code of the worst node, which is the first.
func (c clusterStatus) code() int {
	if len(c.Nodes) == 0 || c.Note != "" {
		return exitUnknown
	}
	return c.Nodes[0].code()
}

func (o *statusOptions) run(ctx context.Context, std cli.Streams) error {
	cluster, err := o.cluster.open()
	if err != nil {
		return o.end(std, "status", nil, err)
	}
	s, err := o.ask(ctx, cluster)
	return o.end(std, "status", s, err)
}

// finding is the result of status or check.
type finding interface {
	code() int
	write(w io.Writer, form string) error
}

// end prints a finding, unless there is an error, and returns the exit code of the command.
func (o *statusOptions) end(std cli.Streams, command string, f finding, err error) error {
	if err == nil {
		err = printAs(std.Out, o.output, f, func(w io.Writer) error { return f.write(w, o.output) })
	}
	if err != nil {
		return cli.Exit{Code: exitNoDump, Err: fmt.Errorf("%s: %w", command, err)}
	}
	if code := f.code(); code != 0 {
		return cli.Exit{Code: code}
	}
	return nil
}

func (o *statusOptions) ask(ctx context.Context, cluster *agents.Cluster) (clusterStatus, error) {
	all, nodesErr, err := cluster.All(ctx)
	if err != nil {
		return clusterStatus{}, err
	}
	out := clusterStatus{Nodes: make([]nodeStatus, len(all))}
	if nodesErr != nil {
		out.Note = fmt.Sprintf("nodes without an agent are not known: %v", nodesErr)
	}
	statuses, errs := agents.Statuses(ctx, cluster, all, o.timeout)
	for i, on := range all {
		out.Nodes[i] = statusOf(on, statuses[i], errs[i])
	}
	slices.SortStableFunc(out.Nodes, func(a, b nodeStatus) int { return cmp.Compare(b.code(), a.code()) })
	return out, nil
}

// statusOf returns the status of a node, from the agent's answer or error.
func statusOf(on agents.OnNode, says debug.Status, err error) nodeStatus {
	n := nodeStatus{Node: on.Node, NotInForce: []string{}, Warnings: []state.Warning{}}
	if on.Err == nil {
		n.Agent = on.Agent.String()
	}
	if err != nil {
		n.Answer = cli.Line(err)
		return n
	}
	n.Version, n.Ready, n.Reason = says.Version, says.Ready.OK, says.Ready.Reason
	n.Pods, n.Pending, n.SetsBehind = says.Counts.LocalPods, says.Counts.Pending, says.Counts.Behind
	for _, entry := range says.Warnings {
		w := entry.Warning
		n.Warnings = append(n.Warnings, w)
		if (w.Kind == "NetworkPolicy" || w.Kind == "ClusterNetworkPolicy") && !slices.Contains(n.NotInForce, w.Object) {
			n.NotInForce = append(n.NotInForce, w.Object)
		}
	}
	slices.Sort(n.NotInForce)
	return n
}

// write prints only names for -o name, or else a table.
func (c clusterStatus) write(w io.Writer, form string) error {
	if form != "name" {
		return c.writeText(w, form == "wide")
	}
	for _, n := range c.Nodes {
		if _, err := fmt.Fprintln(w, "node/"+n.Node); err != nil {
			return err
		}
	}
	return nil
}

// writeText prints a table, and below it the reasons and warnings of nodes.
func (c clusterStatus) writeText(w io.Writer, wide bool) error {
	var b bytes.Buffer
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	head := "NODE\tSTATE\tVERSION\tPENDING\tNOT IN FORCE\tWARNINGS"
	if wide {
		head += "\tPODS\tAGENT"
	}
	_, _ = fmt.Fprintln(table, head) // Flush returns the error
	ready := 0
	for _, n := range c.Nodes {
		_, _ = fmt.Fprintln(table, n.row(wide))
		if n.code() == 0 {
			ready++
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, n := range c.Nodes {
		for _, text := range n.details(wide) {
			fmt.Fprintf(&b, "%s: %s\n", n.Node, cli.Printable(text)) // escape line breaks in the agent's text
		}
	}
	fmt.Fprintf(&b, "%d of %d nodes are as they should be\n", ready, len(c.Nodes))
	if c.Note != "" {
		fmt.Fprintln(&b, c.Note)
	}
	_, err := w.Write(b.Bytes())
	return err
}

func (n nodeStatus) row(wide bool) string {
	cells := []string{n.Node, "NO ANSWER", "-", "-", "-", "-"}
	if n.Answer == "" {
		word := map[bool]string{true: "ready", false: "NOT READY"}[n.Ready]
		cells = []string{n.Node, word, cmp.Or(cli.Printable(n.Version), "-"), fmt.Sprint(n.Pending + n.SetsBehind), fmt.Sprint(len(n.NotInForce)), fmt.Sprint(len(n.Warnings))}
	}
	if wide {
		cells = append(cells, fmt.Sprint(n.Pods), cmp.Or(n.Agent, "-"))
	}
	return strings.Join(cells, "\t")
}

// details returns the lines below the table about a node: why it is not ready, and its warnings.
func (n nodeStatus) details(wide bool) []string {
	var out []string
	switch {
	case n.Answer != "":
		return []string{n.Answer}
	case !n.Ready:
		out = append(out, "not ready: "+cmp.Or(n.Reason, "it does not say why"))
	}
	for i, w := range n.Warnings {
		if i == warningsShown && !wide {
			out = append(out, fmt.Sprintf("%d more warnings: -o wide has them", len(n.Warnings)-i))
			break
		}
		out = append(out, fmt.Sprintf("%s %s: %s: %s", w.Kind, w.Object, w.Reason, w.Message))
	}
	return out
}
