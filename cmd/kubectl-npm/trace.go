package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/debug"
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
			if _, _, err := a.plain(); err != nil {
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

// run prints the answers. Without an answer it returns an error of one line with exitNoDump.
func (o *traceOptions) run(ctx context.Context, std cli.Streams, a query) error {
	t, err := o.answers(ctx, std, a)
	if _, plain, _ := a.plain(); plain && err == nil {
		return o.end(std, t.Verdict, t.Answers[0], t.Answers[0].WriteText, nil)
	}
	return o.end(std, t.Verdict, t, t.write, err)
}

// end prints an answer, unless there is an error, and returns the exit code of its verdict as an error;
// nil if the connection is allowed.
func (o *traceOptions) end(std cli.Streams, v explain.Verdict, answer any, text func(io.Writer) error, err error) error {
	if err == nil {
		err = printAs(std.Out, o.output, answer, text)
	}
	switch {
	case err != nil:
		return cli.Exit{Code: exitNoDump, Err: fmt.Errorf("trace: %w", err)}
	case v == explain.Allowed:
		return nil
	case v == explain.Blocked:
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
