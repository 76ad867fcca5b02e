package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/tool/agents"
	"github.com/winnpm/winnpm/tool/cluster"
	"github.com/winnpm/winnpm/tool/explain"
)

// The exit codes of `kubectl npm trace`, in addition to the codes for bad input and usage errors.
const (
	exitAllowed = 0
	exitNoDump  = 1
	exitBlocked = 3
	exitUnknown = 4
)

// traceOptions are the command line of `kubectl npm trace`.
type traceOptions struct {
	source
	output string
}

func newTrace(std cli.Streams) *cobra.Command {
	o := traceOptions{}
	cmd := &cobra.Command{
		Use:   "trace 'FROM -> TO:PORT/PROTO' | trace FROM TO:PORT/PROTO",
		Short: "Explain why a connection is allowed or blocked, and what would allow it",
		Long: `Says what becomes of a connection, in both directions: the rule that decides, its
policy, the sets and why each end is in them or not; over what is in HNS and over
what should be; and which single label or port would have allowed it.

An end is a pod, deploy/NAME, sts/NAME, ds/NAME or another workload, svc/NAME for what a
Service leads to, an IPv4 address, or "node" for the node itself. Another namespace than
that of -n is written before it: shop/db-0, shop/svc/db. A port is a number or a name, of
TCP unless /UDP or /SCTP follows. Of pods that differ in their addresses alone one is asked
about; of several pods that differ all are, and the exit code is that of the worst. The state
is that of the agents of a cluster, of a saved dump (what
` + debug.ManagerPath + ` answers), or of a simulation of manifests.

Without --manifests or --dump the agents of the cluster are asked through its
API server: the one on the node of each pod, or the one of --node.

Exit code: 0 allowed, 3 blocked, 4 not known, 1 no dump or no such pod, 2 wrong usage.`,
		Example: `  kubectl npm trace shop/storefront-0 shop/db-0:5432/TCP
  kubectl npm trace 'shop/storefront-0 -> shop/db-0:5432/TCP' --manifests examples/shop
  curl -s http://127.0.0.1:10091` + debug.ManagerPath + ` > dump.json; kubectl npm trace node shop/api-0:8080/TCP --dump dump.json`,
		Args: needs(1, 2, "trace FROM TO:PORT/PROTO, like trace shop/web shop/db:5432/TCP"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			a, err := parseQuery(strings.Join(args, "->"), o.inNamespace())
			if err != nil {
				return fmt.Errorf("trace %q: %w", strings.Join(args, " "), err)
			}
			return o.run(cmd.Context(), std, a)
		},
	}
	o.flags(cmd)
	o.clusterFlags(cmd)
	cmd.ValidArgsFunction = o.cluster.named(podResource)
	f := cmd.Flags()
	f.StringVarP(&o.output, "output", "o", "text", "text, json or yaml")
	return cmd
}

func (o *traceOptions) validate() error {
	if err := oneOf(o.output, "text", "json", "yaml"); err != nil {
		return err
	}
	return o.source.validate()
}

// run prints the answers, and returns the exit code of their verdict as an error. Without an answer the error
// is one line with exitNoDump.
func (o *traceOptions) run(ctx context.Context, std cli.Streams, a query) error {
	t, err := o.answers(ctx, std, a)
	switch {
	case err != nil:
	case a.plain:
		err = printAs(std.Out, o.output, t.Answers[0], t.Answers[0].WriteText)
	default:
		err = printAs(std.Out, o.output, t, t.write)
	}
	switch {
	case err != nil:
		return cli.Exit{Code: exitNoDump, Err: fmt.Errorf("trace: %w", err)}
	case t.Verdict == explain.Allowed:
		return nil
	case t.Verdict == explain.Blocked:
		return cli.Exit{Code: exitBlocked}
	}
	return cli.Exit{Code: exitUnknown}
}

// asked is the source that answers questions.
type asked struct {
	catalog // nil for a dump, which has no workloads
	answer  func(context.Context, explain.Question) (explain.Answer, error)
}

// open reads the manifests or the dump, or finds the cluster.
func (o *traceOptions) open(ctx context.Context, std cli.Streams) (asked, error) {
	switch {
	case o.live():
		live, err := o.cluster.open()
		return asked{inCluster{live}, func(ctx context.Context, q explain.Question) (explain.Answer, error) { return o.ask(ctx, live, q) }}, err
	case len(o.manifests) > 0:
		w, err := cluster.Read(ctx, o.options(std))
		return asked{inManifests{w}, w.Answer}, err
	}
	d, places, err := o.read(ctx, std)
	return asked{answer: func(_ context.Context, q explain.Question) (explain.Answer, error) {
		return explain.Explain(d, q, places)
	}}, err
}

// traces holds the answers to a question that names workloads, Services or named ports.
type traces struct {
	Verdict explain.Verdict  `json:"verdict"` // the worst
	Notes   []string         `json:"notes"`   // which pod represents which workload or Service
	Answers []explain.Answer `json:"answers"`
}

func (o *traceOptions) answers(ctx context.Context, std cli.Streams, a query) (traces, error) {
	if !a.plain && o.dump != "" {
		return traces{}, errors.New("a dump has no workloads, Services and port names: name a pod and a port number, or ask a cluster or manifests")
	}
	c, err := o.open(ctx, std)
	if err != nil {
		return traces{}, err
	}
	r, err := a.resolve(ctx, c)
	if err != nil {
		return traces{}, err
	}
	t := traces{Verdict: explain.Allowed, Notes: append([]string{}, r.notes...)}
	for _, q := range r.questions {
		answer, err := c.answer(ctx, q)
		if err != nil {
			return traces{}, err
		}
		t.Answers = append(t.Answers, answer)
		t.Verdict = explain.Worse(t.Verdict, answer.Verdict)
	}
	return t, nil
}

// write prints the answers. If there are several, it first prints the number of each verdict.
func (t traces) write(w io.Writer) error {
	var b bytes.Buffer
	count := map[explain.Verdict]int{}
	for _, a := range t.Answers {
		count[a.Verdict]++
	}
	if len(t.Answers) > 1 {
		fmt.Fprintf(&b, "%d of %d BLOCKED, %d UNKNOWN, %d ALLOWED\n", count[explain.Blocked], len(t.Answers), count[explain.Unknown], count[explain.Allowed])
	}
	for _, note := range t.Notes {
		fmt.Fprintln(&b, note)
	}
	for _, a := range t.Answers {
		if b.Len() > 0 {
			fmt.Fprintln(&b)
		}
		_ = a.WriteText(&b) // writing to a buffer does not fail
	}
	_, err := w.Write(b.Bytes())
	return err
}

// inManifests is the catalog of the objects in manifests.
type inManifests struct{ world cluster.World }

func (m inManifests) Pods(_ context.Context, namespace string) ([]cluster.Pod, error) {
	return slices.DeleteFunc(slices.Clone(m.world.Pods), func(p cluster.Pod) bool { return p.Namespace != namespace }), nil
}

func (m inManifests) Service(_ context.Context, namespace, name string) (*corev1.Service, error) {
	for _, s := range m.world.Services {
		if s.Namespace == namespace && s.Name == name {
			return s, nil
		}
	}
	return nil, nil //nolint:nilnil // nil means that it does not exist
}

// inCluster is the catalog of the objects in a live cluster.
type inCluster struct{ *agents.Cluster }

func (c inCluster) Pods(ctx context.Context, namespace string) (out []cluster.Pod, err error) {
	pods, err := c.Cluster.Pods(ctx, namespace)
	for i := range pods {
		out = append(out, cluster.PodOf(&pods[i], nil))
	}
	return out, err
}
