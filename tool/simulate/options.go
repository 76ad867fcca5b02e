package simulate

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/bounded"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/tool/explain"
)

// Options are the command line of `kubectl npm simulate`.
type Options struct {
	Manifests  []string // files, folders, or - for Stdin
	Namespace  string   // of objects of Manifests that name none; "": default
	Recursive  bool     // also the folders below a folder of Manifests
	Kubeconfig string   // instead of Manifests: a live cluster
	Node       string   // only this node's pods have endpoints; "": every pod
	Output     string   // "text", "json", or "" for text
	Matrix     []string // PORT/PROTO
	All        bool     // Matrix is of pods, not of workloads
	Trace      []string // ns/pod->ns/pod:PORT/PROTO
	Version    string   // of the program, for recordings
	Program    string   // what a person types to run it, for errors; "" is npm

	// Connect returns the way to the cluster of Kubeconfig; nil: its current context.
	Connect func() (*rest.Config, error)

	Inputs         *bounded.Inputs // as manifest.Options.Inputs
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Logger         klog.Logger
}

// port is a destination port.
type port struct {
	number   uint16
	protocol policy.Protocol
}

// probe is one question of --trace.
type probe struct {
	from, to string // as given
	port     port
}

// questions are what the verdicts of a result answer.
type questions struct {
	matrix []port
	all    bool // the matrix is of pods
	trace  []probe
}

// validate returns the questions, or one line about wrong usage.
func (o *Options) validate() (questions, error) {
	switch {
	case len(o.Manifests) == 0 && o.Kubeconfig == "":
		return questions{}, errors.New("nothing to simulate: give --manifests PATH or --kubeconfig FILE")
	case len(o.Manifests) > 0 && o.Kubeconfig != "":
		return questions{}, errors.New("--manifests and --kubeconfig exclude each other: give one of them")
	case o.Output != "" && o.Output != "text" && o.Output != "json":
		return questions{}, fmt.Errorf("-o %q: the output is text or json", o.Output)
	}
	q, err := parseQuestions(o.Matrix, o.Trace)
	q.all = o.All
	return q, err
}

// parseQuestions reads the values of --matrix and --trace.
func parseQuestions(matrix, trace []string) (questions, error) {
	var q questions
	for _, text := range matrix {
		p, err := parsePort(text)
		if err != nil {
			return questions{}, fmt.Errorf("--matrix %q: %w", text, err)
		}
		q.matrix = append(q.matrix, p)
	}
	for _, text := range trace {
		p, err := parseProbe(text)
		if err != nil {
			return questions{}, fmt.Errorf("--trace %q: %w", text, err)
		}
		q.trace = append(q.trace, p)
	}
	return q, nil
}

// parsePort reads PORT/PROTO.
func parsePort(text string) (port, error) {
	number, protocol, err := explain.ParsePort(text)
	return port{number, protocol}, err
}

// parseProbe reads FROM->TO:PORT/PROTO. What is asked about are pods and
// addresses: a simulation may be of several nodes.
func parseProbe(text string) (probe, error) {
	q, err := explain.Parse(text)
	if err == nil && slices.Contains([]string{q.From, q.To}, explain.Node) {
		err = fmt.Errorf("%q is neither namespace/pod nor an IPv4 address", explain.Node)
	}
	return probe{q.From, q.To, port{q.Port, q.Protocol}}, err
}
