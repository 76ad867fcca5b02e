// Package simulate implements `kubectl npm simulate`. It runs the whole agent, informers included, on
// the simulator instead of Windows.
//
// Objects come from manifests or from a live cluster. node plays the kubelet
// and the CNI, so that every local pod has an endpoint. The result is the content of
// the simulated HNS, with the verdicts of its packet tracer.
package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/printable"
	"github.com/winnpm/winnpm/pkg/recorder"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/bounded"
	"github.com/winnpm/winnpm/tool/explain"
	"github.com/winnpm/winnpm/tool/hnssim"
	"github.com/winnpm/winnpm/tool/manifest"
)

// ExitIncomplete is the exit code when something was left out or could not be programmed. The other
// codes of `kubectl npm simulate` are those of package cli.
const ExitIncomplete = 3

// firstList is how long a server may take for its first full list.
const firstList = 15 * time.Second

// Run prints the result of the first convergence, and returns the exit code. When that is
// cli.ExitBadInput or cli.ExitUsage, one line on Options.Stderr says why, and nothing was printed.
func Run(ctx context.Context, o Options) int {
	q, err := o.validate()
	if err != nil {
		complain(o, err)
		return cli.ExitUsage
	}
	done, err := printResult(ctx, o, q)
	if err != nil {
		complain(o, err)
		if errors.Is(err, manifest.ErrEmpty) { // such as of a command in a pipe that failed
			return cli.ExitUsage
		}
		return cli.ExitBadInput
	}
	if !done {
		return ExitIncomplete
	}
	return cli.ExitOK
}

// complain writes one printable line for each error.
func complain(o Options, err error) {
	for _, text := range manifest.Lines(err) {
		// Nobody is left to tell when stderr is closed.
		_, _ = fmt.Fprintln(o.Stderr, cmp.Or(o.Program, "npm")+": simulate: "+text)
	}
}

// moment is the state of a simulation between two transactions.
type moment struct {
	sim    *hnssim.Sim
	dump   state.Dump
	loaded []manifest.Warning
	places explain.Places
	node   string
	own    map[string][]netip.Addr // as judge.own
}

// session is one running simulation.
type session struct {
	moment   // without its dump
	version  string
	recorder *recorder.Recorder // nil: nothing is recorded

	kubelet    *node
	dataplane  *dataplane.Dataplane
	controller *controllers.Controller
}

// printResult prints the result of the first convergence, and returns whether everything is
// programmed.
func printResult(ctx context.Context, o Options, q questions) (bool, error) {
	in, err := open(o, false)
	if err != nil {
		return false, err
	}
	m, err := converge(ctx, o, in)
	if err != nil {
		return false, err
	}
	r, err := m.result(ctx, q)
	if err != nil {
		return false, err
	}
	return complete(r.Warnings), r.write(o)
}

func (r Result) write(o Options) error {
	if o.Output == "json" {
		return r.writeJSON(printable.JSON(o.Stdout))
	}
	return r.writeText(o.Stdout)
}

// input is where the objects come from.
type input struct {
	source controllers.Source
	loaded []manifest.Warning
	places explain.Places // of the policies, in manifests
	// objects are those of manifests, until a session has begun.
	objects manifest.Objects
}

// open reads the manifests, or begins to follow a cluster.
func open(o Options, allMakers bool) (*input, error) {
	if o.Kubeconfig == "" {
		objects, loaded, err := manifest.Load(o.Manifests, manifest.Options{Node: o.Node, Stdin: o.Stdin, Inputs: o.Inputs, Recursive: o.Recursive, AllMakers: allMakers, Namespace: o.Namespace})
		if err != nil {
			return nil, err
		}
		return &input{memorySource(objects, o.Node), loaded, objects.Places, objects}, nil
	}
	connect := o.Connect
	if connect == nil {
		connect = func() (*rest.Config, error) { return controllers.RESTConfig(o.Kubeconfig) }
	}
	cfg, err := connect()
	if err != nil {
		return nil, err
	}
	source, err := controllers.ClusterSource(cfg, o.Node)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", o.Kubeconfig, err)
	}
	return &input{source: source}, nil
}

// newSession returns one that is not running yet. It records if its recording is shown.
func newSession(o Options, in *input, recording bool) *session {
	sim := hnssim.New(hnssim.Options{Foreign: hnssim.DefaultForeign()})
	s := &session{
		moment:  moment{sim: sim, loaded: in.loaded, places: in.places, node: o.Node, own: in.ownNodes()},
		version: o.Version,
	}
	cfg := dataplane.Config{Node: o.Node, Now: time.Now, Client: sim}
	if recording {
		s.recorder = recorder.New(recorder.Config{Node: o.Node, Agent: o.Version, Now: time.Now})
		cfg.Client = s.recorder.Client(sim)
	}
	s.dataplane = dataplane.New(cfg)
	var applier controllers.Applier = s.dataplane
	if recording {
		applier = s.recorder.Dataplane(s.dataplane)
	}
	s.kubelet = newNode(applier, sim)
	s.controller = controllers.New(controllers.Config{
		// Nobody else writes to a simulated node, so there are no looks. So the calls of
		// HNS do not depend on how long anything takes.
		Source: in.source, Applier: s.kubelet, Progress: s.dataplane.Progress, Node: o.Node, Logger: o.Logger,
	})
	in.objects = manifest.Objects{} // the source hands them out, and lets go of them
	return s
}

// settle waits for the first convergence.
func (s *session) settle(ctx context.Context, o Options) error {
	var limit <-chan time.Time
	if o.Kubeconfig != "" {
		limit = time.After(firstList)
	}
	interrupted := errors.New("interrupted before the first convergence")
	select {
	case <-s.controller.Synced():
	case <-limit:
		reason := s.controller.SourceError()
		if late, is := errors.AsType[net.Error](reason); reason == nil || is && late.Timeout() {
			reason = errors.New("no answer")
		}
		return fmt.Errorf("kubeconfig %s: the server gave no full list within %s: %w", o.Kubeconfig, firstList, reason)
	case <-ctx.Done():
		return interrupted
	}
	select {
	case <-s.controller.Settled():
		return nil
	case <-ctx.Done():
		return interrupted
	}
}

// run runs the program until its first convergence, lets use see it, and ends it.
func run(ctx context.Context, o Options, in *input, recording bool, use func(*session) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	s := newSession(o, in, recording)
	running.Go(func() { s.controller.Run(ctx) })
	if err := s.settle(ctx, o); err != nil {
		return err
	}
	return use(s)
}

// converge returns the first convergence. The agent has ended by then; HNS and a snapshot are left.
func converge(ctx context.Context, o Options, in *input) (moment, error) {
	var m moment
	var at *dataplane.Snapshot
	var older []state.Warning // policies of older versions, which nothing enforces
	err := run(ctx, o, in, false, func(s *session) error {
		if in.source.Older != nil {
			ctx, cancel := context.WithTimeout(ctx, firstList)
			defer cancel()
			older = in.source.Older(ctx)
		}
		s.kubelet.end()
		m, at = s.moment, s.dataplane.Snapshot()
		return nil
	})
	if err != nil {
		return moment{}, err
	}
	m.dump = at.Dump()
	m.dump.Warnings = slices.Concat(older, m.dump.Warnings)
	return m, nil
}

// Snapshot runs the program as Run does until the first convergence, and returns the dump
// of that moment and where the manifests have the policies. It uses only the options that
// say what to simulate.
func Snapshot(ctx context.Context, o Options) (state.Dump, explain.Places, error) {
	in, err := open(o, true)
	if err != nil {
		return state.Dump{}, nil, err
	}
	m, err := converge(ctx, o, in)
	return m.dump, m.places, err
}

// Bundle runs the program as Snapshot does, and writes the support bundle of that
// moment.
func Bundle(ctx context.Context, o Options, w io.Writer) error {
	in, err := open(o, true)
	if err != nil {
		return err
	}
	return run(ctx, o, in, true, func(s *session) error { return debug.WriteBundle(w, s.pages()) })
}

// pages is what the agent's HTTP endpoint shows.
func (s *session) pages() debug.Config {
	return debug.Config{
		Dump: s.dataplane.Dump, Healthy: s.controller.Healthy, Ready: s.controller.Ready,
		Recording: s.recorder.Write, Version: s.version,
		Settings: map[string]any{"simulated": true, "node": s.node},
	}
}

// result answers questions about a moment.
func (m moment) result(ctx context.Context, q questions) (Result, error) {
	j := judge{explain.New(m.dump), m.node, m.own}
	rows, err := j.check(q)
	if err != nil {
		return Result{}, err
	}
	r := newResult(m.sim, m.dump, m.loaded)
	r.Verdicts, r.Grids, r.Traces = j.all(ctx, q, rows), j.grids(ctx, q, rows), j.traces(q)
	if len(q.matrix) > 0 && !q.all {
		r.Workloads = j.workloads()
	}
	return r, nil
}

// Live is a simulated node that follows its source. The end-to-end suite runs it beside a real API
// server.
type Live struct{ session *session }

// Start starts a simulation and waits for its first convergence. The simulation ends with ctx.
func Start(ctx context.Context, o Options) (*Live, error) {
	in, err := open(o, false)
	if err != nil {
		return nil, err
	}
	s := newSession(o, in, true)
	go s.controller.Run(ctx)
	if err := s.settle(ctx, o); err != nil {
		return nil, err
	}
	return &Live{s}, nil
}

// Pages returns the pages of the simulated agent's HTTP endpoint.
func (l *Live) Pages() debug.Config { return l.session.pages() }

// WriteResult writes the present result as JSON, with the verdicts that matrix, trace and all ask for
// as the fields of Options do. The state does not change until it returns.
func (l *Live) WriteResult(ctx context.Context, w io.Writer, matrix, trace []string, all bool) error {
	q, err := parseQuestions(matrix, trace)
	if err != nil {
		return err
	}
	q.all = all
	l.session.kubelet.mu.Lock()
	defer l.session.kubelet.mu.Unlock()
	m := l.session.moment
	m.dump = l.session.dataplane.Dump()
	r, err := m.result(ctx, q)
	if err != nil {
		return err
	}
	return r.writeJSON(w)
}

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

// memory serves the objects of manifests to the reflectors that otherwise read a live cluster. The
// objects never change, so its watches stay silent. Its lists have the objects themselves, not
// copies: readers must not change them.
type memory struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported makes reflectors list before they watch: a
// silent watch has no initial events.
func (memory) IsWatchListSemanticsUnSupported() bool { return true }

// memoryOf serves objects. With once it lets go of them when they are listed: no reflector lists
// again after a silent watch.
func memoryOf[T runtime.Object](objects []T, once bool) memory {
	return memory{&cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			list := &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
			for _, o := range objects {
				list.Items = append(list.Items, runtime.RawExtension{Object: o})
			}
			if once {
				objects = nil
			}
			return list, nil
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			return watch.NewProxyWatcher(make(chan watch.Event)), nil
		},
	}}
}

// memorySource serves manifests; with a node, that one alone of Source.Nodes.
func memorySource(o manifest.Objects, node string) controllers.Source {
	own := slices.DeleteFunc(slices.Clone(o.Nodes), func(n *corev1.Node) bool { return node != "" && n.Name != node })
	return controllers.Source{
		Pods: memoryOf(o.Pods, true), Namespaces: memoryOf(o.Namespaces, false), Policies: memoryOf(o.Policies, false),
		ClusterPolicies: memoryOf(o.ClusterPolicies, false), Nodes: memoryOf(own, false), AllNodes: memoryOf(o.Nodes, false),
	}
}
