// Package simulate implements `kubectl npm simulate`. It runs the agent's dataplane on a simulator of HNS.
//
// The objects come from manifests or from a live cluster, and every local pod has an endpoint. The result
// is the content of the simulated HNS, and verdicts of package explain.
package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"

	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/cluster"
	"github.com/winnpm/winnpm/tool/explain"
	"github.com/winnpm/winnpm/tool/hnssim"
	"github.com/winnpm/winnpm/tool/manifest"
)

// ExitIncomplete is the exit code if a part of the input was omitted or could not be programmed. Package
// cli has the other exit codes of `kubectl npm simulate`.
const ExitIncomplete = 3

// Run prints the result of a simulation. Its error is a cli.Exit. If the error has an Err, nothing was
// printed.
func Run(ctx context.Context, o Options) error {
	q, err := o.validate()
	if err != nil {
		return cli.Exit{Code: cli.ExitUsage, Err: fmt.Errorf("simulate: %w", err)}
	}
	complete, err := printResult(ctx, o, q)
	switch {
	case errors.Is(err, manifest.ErrEmpty): // for example if the command before a pipe failed
		return cli.Exit{Code: cli.ExitUsage, Err: fmt.Errorf("simulate: %w", err)}
	case err != nil:
		return cli.Exit{Code: cli.ExitBadInput, Err: fmt.Errorf("simulate: %w", err)}
	case !complete:
		return cli.Exit{Code: ExitIncomplete}
	}
	return nil
}

// printResult prints the result of a simulation, and reports whether everything is programmed.
func printResult(ctx context.Context, o Options, q questions) (bool, error) {
	o.SkipMakers = true
	w, err := cluster.Read(ctx, o.Options)
	if err != nil {
		return false, err
	}
	n, report, err := w.Run(ctx, nil)
	if err != nil {
		return false, err
	}
	o.Logger.Info("applied", "generation", report.Generation, "objects", report.Objects, "calls", report.Calls,
		"pending", report.Pending, "warnings", len(report.Warnings), "errors", report.Errors, "took", report.Took)
	j := judge{cluster: explain.New(n.Dataplane.Dump()), node: o.Node, nodeAddrs: nodeAddrs(w)}
	r, err := newResult(n.Sim, j, w.Warnings, q)
	if err != nil {
		return false, err
	}
	complete := !slices.ContainsFunc(r.Warnings, manifest.Misleads)
	if o.Output == "json" {
		return complete, r.writeJSON(ctx, cli.PrintableJSON(o.Stdout))
	}
	return complete, r.writeText(ctx, o.Stdout)
}

// nodeAddrs maps pods to the addresses of their node, for manifests that have both.
func nodeAddrs(w cluster.World) map[string][]netip.Addr {
	nodes, out := map[string][]netip.Addr{}, map[string][]netip.Addr{}
	for _, n := range w.Nodes {
		nodes[n.Name] = n.Internal
	}
	for i := range w.Pods {
		if p := &w.Pods[i]; w.FromManifests {
			out[p.Key().String()] = nodes[p.Node]
		}
	}
	return out
}

// WriteResult writes as JSON the content of a simulator, whose state the dump d describes, with the
// verdicts that the options Matrix, All and Trace ask for.
func WriteResult(ctx context.Context, w io.Writer, sim *hnssim.Sim, d state.Dump, o Options) error {
	q, err := parseQuestions(o)
	if err != nil {
		return err
	}
	r, err := newResult(sim, judge{cluster: explain.New(d), node: o.Node}, nil, q)
	if err != nil {
		return err
	}
	return r.writeJSON(ctx, w)
}

// Options are the command line of `kubectl npm simulate`.
type Options struct {
	cluster.Options
	Output string   // "text", "json", or "" for text
	Matrix []string // PORT/PROTO
	All    bool     // the rows of Matrix are pods, not workloads
	Trace  []string // ns/pod->ns/pod:PORT/PROTO

	Stdout io.Writer
	Logger klog.Logger
}

// questions are the questions that the verdicts of a result answer.
type questions struct {
	matrix []explain.Question // each with a port only
	all    bool               // the rows of the matrix are pods
	trace  []explain.Question
}

// validate checks the options and parses the questions. Its errors are about usage.
func (o *Options) validate() (questions, error) {
	switch {
	case len(o.Manifests) == 0 && o.Kubeconfig == "":
		return questions{}, errors.New("nothing to simulate: give --manifests PATH or --kubeconfig FILE")
	case len(o.Manifests) > 0 && o.Kubeconfig != "":
		return questions{}, errors.New("--manifests and --kubeconfig exclude each other: give one of them")
	case o.Output != "" && o.Output != "text" && o.Output != "json":
		return questions{}, fmt.Errorf("-o %q: the output is text or json", o.Output)
	}
	return parseQuestions(*o)
}

// parseQuestions parses the values of --matrix, --all and --trace.
func parseQuestions(o Options) (questions, error) {
	q := questions{all: o.All}
	for _, text := range o.Matrix {
		port, protocol, err := explain.ParsePort(text)
		if err != nil {
			return questions{}, fmt.Errorf("--matrix %q: %w", text, err)
		}
		q.matrix = append(q.matrix, explain.Question{Port: port, Protocol: protocol})
	}
	for _, text := range o.Trace {
		question, err := explain.Parse(text)
		if err == nil && slices.Contains([]string{question.From, question.To}, explain.Node) { // a simulation may be of several nodes
			err = fmt.Errorf("%q is neither namespace/pod nor an IPv4 address", explain.Node)
		}
		if err != nil {
			return questions{}, fmt.Errorf("--trace %q: %w", text, err)
		}
		q.trace = append(q.trace, question)
	}
	return q, nil
}
