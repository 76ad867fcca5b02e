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
	"slices"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/recorder"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/bounded"
	"github.com/winnpm/winnpm/tool/explain"
	"github.com/winnpm/winnpm/tool/hnssim"
	"github.com/winnpm/winnpm/tool/manifest"
	"github.com/winnpm/winnpm/tool/whatif"
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
	c, err := read(ctx, o, false)
	if err != nil {
		return false, err
	}
	sim, dump, err := c.simulate(ctx, nil)
	if err != nil {
		return false, err
	}
	j := judge{cluster: explain.New(dump), node: o.Node, nodeAddrs: c.nodeAddrsOfPods()}
	r, err := newResult(ctx, sim, j, c.loaded, q)
	if err != nil {
		return false, err
	}
	complete := !slices.ContainsFunc(r.Warnings, manifest.Misleads)
	if o.Output == "json" {
		return complete, r.writeJSON(cli.PrintableJSON(o.Stdout))
	}
	return complete, r.writeText(o.Stdout)
}

// simulate programs the objects of a cluster. The recorder may be nil.
func (c *Cluster) simulate(ctx context.Context, rec *recorder.Recorder) (*hnssim.Sim, state.Dump, error) {
	o, w := c.options, c.world()
	w.Policies = policy.DefaultBudgets().Fit(w.Policies)
	local := func(p whatif.Pod) bool { return o.Node == "" || p.Node == o.Node }
	s, report, err := w.Simulate(ctx, whatif.Setup{Node: o.Node, Addrs: c.nodeAddrs(), Local: local, Rivals: true, Recorder: rec})
	switch {
	case ctx.Err() != nil:
		return nil, state.Dump{}, errors.New("interrupted before the first convergence")
	case err != nil:
		return nil, state.Dump{}, err
	}
	o.Logger.Info("applied", "generation", report.Generation, "objects", report.Objects, "calls", report.Calls,
		"pending", report.Pending, "warnings", len(report.Warnings), "errors", report.Errors, "took", report.Took)
	return s.Sim, s.Dataplane.Dump(), nil
}

// Snapshot simulates like Run, and returns the dump and the places of the policies in the manifests. It
// ignores the options about output and questions.
func Snapshot(ctx context.Context, o Options) (state.Dump, explain.Places, error) {
	c, err := Read(ctx, o)
	if err != nil {
		return state.Dump{}, nil, err
	}
	_, dump, err := c.simulate(ctx, nil)
	return dump, c.Places, err
}

// Bundle simulates like Snapshot, and writes a support bundle.
func Bundle(ctx context.Context, o Options, w io.Writer) error {
	c, err := Read(ctx, o)
	if err != nil {
		return err
	}
	rec := recorder.New(recorder.Config{Node: o.Node, Agent: o.Version, Now: time.Now})
	_, dump, err := c.simulate(ctx, rec)
	if err != nil {
		return err
	}
	return debug.WriteBundle(w, debug.Config{
		Dump: func() state.Dump { return dump }, Healthy: func() error { return nil }, Ready: func() error { return nil },
		Recording: rec.Write, Version: o.Version,
		Settings: map[string]any{"simulated": true, "node": o.Node},
	})
}

// WriteResult writes as JSON the content of a simulator, whose state the dump d describes, with the
// verdicts that the options Matrix, All and Trace ask for. The simulator must not change until it returns.
func WriteResult(ctx context.Context, w io.Writer, sim *hnssim.Sim, d state.Dump, o Options) error {
	q, err := parseQuestions(o)
	if err != nil {
		return err
	}
	r, err := newResult(ctx, sim, judge{cluster: explain.New(d), node: o.Node}, nil, q)
	if err != nil {
		return err
	}
	return r.writeJSON(w)
}

// Options are the command line of `kubectl npm simulate`.
type Options struct {
	Manifests  []string // files, folders, or - for Stdin
	Namespace  string   // for objects in Manifests that name none; "": default
	Recursive  bool     // also read subfolders of Manifests
	Kubeconfig string   // of a live cluster, instead of Manifests
	Node       string   // only this node's pods have endpoints; "": every pod
	Output     string   // "text", "json", or "" for text
	Matrix     []string // PORT/PROTO
	All        bool     // the rows of Matrix are pods, not workloads
	Trace      []string // ns/pod->ns/pod:PORT/PROTO
	Version    string   // of the program, for recordings

	Connect func() (*rest.Config, error) // to the cluster of Kubeconfig
	Inputs  *bounded.Inputs              // as manifest.Options.Inputs
	Stdin   io.Reader
	Stdout  io.Writer
	Logger  klog.Logger
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
