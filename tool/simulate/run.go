package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"k8s.io/client-go/rest"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/printable"
	"github.com/winnpm/winnpm/pkg/recorder"
	"github.com/winnpm/winnpm/pkg/state"
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

// session is one running simulation.
type session struct {
	node       string
	version    string
	sim        *hnssim.Sim
	recorder   *recorder.Recorder // nil: nothing is recorded
	kubelet    *node
	dataplane  *dataplane.Dataplane
	controller *controllers.Controller
	loaded     []manifest.Warning
	places     explain.Places
	own        map[string][]netip.Addr // as judge.own

	lookOlder func(context.Context) []state.Warning // as controllers.Source.Older
	older     []state.Warning                       // about what a live cluster has; guarded by kubelet.mu
}

// printResult prints the result of the first convergence, and returns whether everything is
// programmed. The agent has ended by then; HNS and a snapshot are left.
func printResult(ctx context.Context, o Options, q questions) (bool, error) {
	m, err := converged(ctx, o, settling{older: true})
	if err != nil {
		return false, err
	}
	r, err := m.read().result(ctx, q)
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
		node: o.Node, version: o.Version, sim: sim, loaded: in.loaded, places: in.places, own: in.ownNodes(), lookOlder: in.source.Older,
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

// findOlder looks once for policies of older versions, which nothing enforces.
func (s *session) findOlder(ctx context.Context) {
	if s.lookOlder == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, firstList)
	defer cancel()
	found := s.lookOlder(ctx)
	s.kubelet.mu.Lock()
	defer s.kubelet.mu.Unlock()
	s.older = found
}

// result passes the present state to use. The state does not change until use returns.
func (s *session) result(ctx context.Context, q questions, use func(Result) error) error {
	s.kubelet.mu.Lock()
	defer s.kubelet.mu.Unlock()
	r, err := s.now().read().result(ctx, q)
	if err != nil {
		return err
	}
	return use(r)
}

// moment is the state of a simulation between two transactions.
type moment struct {
	sim    *hnssim.Sim
	state  *dataplane.Snapshot
	older  []state.Warning
	loaded []manifest.Warning
	places explain.Places
	node   string
	own    map[string][]netip.Addr // as judge.own
}

// now is the present moment; kubelet.mu must be held while it is used.
func (s *session) now() moment {
	return moment{s.sim, s.dataplane.Snapshot(), s.older, s.loaded, s.places, s.node, s.own}
}

// last is the moment after which nothing changes any more: no transaction begins, whatever a
// live cluster tells.
func (s *session) last() moment {
	s.kubelet.mu.Lock()
	defer s.kubelet.mu.Unlock()
	s.kubelet.ended = true
	return s.now()
}

// read makes the dump of a moment.
func (m moment) read() dumped {
	d := m.state.Dump()
	d.Warnings = slices.Concat(m.older, d.Warnings)
	m.state = nil // what the dump does not have of it is free
	return dumped{m, d}
}

// dumped is a moment together with its dump.
type dumped struct {
	moment
	dump state.Dump
}

// result answers questions about a moment.
func (m dumped) result(ctx context.Context, q questions) (Result, error) {
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
