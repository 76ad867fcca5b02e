package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/hcsadapter"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/recorder"
	"github.com/winnpm/winnpm/pkg/state"
)

// shutdownWait is how long a stop waits for the worker. The worker gives up its call of
// HNS when it is told to stop, so a longer wait means that something hangs.
const shutdownWait = 5 * time.Second

// longestLook limits the time in which each object in HNS is read once, also if unused sets are
// kept longer. Objects that HNS lost are repaired within this time.
const longestLook = time.Minute

// settings are the command line, the environment and the configuration of npm start. A bundle
// contains the exported fields as JSON. kubeconfig is not exported, because the file's content is
// secret.
type settings struct {
	config
	Node         string
	kubeconfig   string // "" means the service account of the agent's pod
	Listen       string // address of the HTTP endpoint
	ListenProbes string // address of the probe endpoint, for the kubelet
	level        string // of the log, on the command line
	Reconcile    time.Duration
	HNSTimeout   time.Duration
	// DryRun makes the agent read HNS and the cluster, and write to neither.
	DryRun bool
}

// agent is one run of npm start.
type agent struct {
	set     settings
	host    host
	svc     hcsadapter.Client
	client  hns.Client // svc, measured
	logger  klog.Logger
	waiting phase

	rec     *recorder.Recorder
	dp      *dataplane.Dataplane
	ctl     *controllers.Controller
	metrics *debug.Metrics
	events  *controllers.Recorder
	dry     *dryRun // nil unless settings.DryRun
}

// runAgent runs the agent until ctx is done. It returns nil if it ended only because of that.
func runAgent(ctx context.Context, set settings, this host, svc hcsadapter.Client, logger klog.Logger) error {
	api, err := controllers.RESTConfig(set.kubeconfig)
	if err != nil {
		return err
	}
	source, err := controllers.ClusterSource(api, set.Node)
	if err != nil {
		return err
	}
	sink, err := controllers.ClusterSink(api)
	if err != nil {
		return err
	}
	a := newAgent(set, source, sink, this, svc, logger)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	logger.Info("starting", "node", set.Node, "server", api.Host, "network", set.Network, "version", cli.Version())
	parts := []func(context.Context) error{a.work}
	for _, l := range a.listeners() {
		parts = append(parts, l.Run)
	}
	ended := make(chan error, len(parts))
	for _, part := range parts {
		go func() { ended <- part(ctx) }()
	}
	err = <-ended // if one part ends, all end
	cancel()
	late := time.After(shutdownWait)
	for range parts[1:] {
		select {
		case other := <-ended:
			err = errors.Join(err, other)
		case <-late:
			cli.Warn(logger, "HNS has not returned from a call, ending without waiting for it", "waited", shutdownWait)
			return err
		}
	}
	return err
}

// listeners returns the listeners of the agent's HTTP endpoints.
func (a *agent) listeners() []debug.Listener {
	pages := a.pages()
	return []debug.Listener{{
		What: "probe endpoint", Address: a.set.ListenProbes, Keys: "--listen-probes or ProbeListeningPort",
		Listen: a.host.listen, Pages: debug.Probes(pages), Logger: a.logger,
		Opened: func(addr string) { a.logger.Info("answering the kubelet's probes", "address", addr) },
	}, {
		What: "HTTP endpoint", Address: a.set.Listen, Keys: "--listen or ListeningAddress and ListeningPort",
		Listen: a.host.listen, Pages: debug.Handler(pages), Logger: a.logger,
		Opened: func(addr string) {
			a.logger.Info("Starting NPM HTTP API on "+addr, "listening", addr) // runbooks search for this line
		},
	}}
}

// newAgent connects the parts of an agent. It does no I/O.
func newAgent(set settings, source controllers.Source, sink controllers.Sink, this host, svc hcsadapter.Client, logger klog.Logger) *agent {
	a := &agent{set: set, host: this, svc: svc, logger: logger}
	a.waiting.set(a.network())
	a.metrics = debug.NewMetrics(debug.MetricsConfig{
		Version: cli.Version(), Now: time.Now,
		// a.dp and a.ctl are set below, because they need the metrics.
		Stats: func() state.Stats { return a.dp.Stats() },
		Staleness: func() map[string]time.Duration {
			ages := map[string]time.Duration{}
			for kind, age := range a.ctl.Staleness() {
				ages[kind.String()] = age
			}
			return ages
		},
	})
	a.client = a.metrics.Client(svc)
	var base []hns.ACL
	if set.Network == networkCalico {
		base = acl.CalicoBase()
	}
	cfg := dataplane.Config{
		Node: set.Node, Now: time.Now,
		GracePeriod: set.Reconcile, MaxBatchedACLs: set.MaxBatchedACLs, BaseACLs: base,
		LookPeriod: min(set.Reconcile, longestLook), Unchecked: !set.CheckVersions,
		Budgets: set.Budgets, DryRun: set.DryRun,
	}
	a.rec = recorder.New(recorder.Config{Node: set.Node, Agent: cli.Version(), Now: time.Now})
	cfg.Client = a.rec.Client(a.client)
	a.dp = dataplane.New(cfg)
	if set.DryRun {
		a.dry = &dryRun{dump: a.dp.Dump, logger: logger}
	}
	recorded := a.rec.Dataplane(a.dp)
	a.events = controllers.NewRecorder(controllers.EventsConfig{
		Sink: sink, Node: set.Node, Selecting: a.dp.Selecting, Logger: logger,
		Policy: func(key policy.Key) (metav1.Object, bool) { return a.ctl.Policy(key) },
	})
	a.ctl = controllers.New(controllers.Config{
		Source: source, Applier: recorded, Observer: recorded, Readiness: a.dp, Progress: a.dp.Progress, OnApplied: a.applied,
		Node: set.Node, RequireNodeAddr: true,
		ApplyInterval: time.Duration(set.ApplyMillis) * time.Millisecond, Budgets: set.Budgets, Logger: logger,
	})
	return a
}

// applied passes on the results of a transaction. It does not call HNS.
func (a *agent) applied(done controllers.Applied) {
	a.metrics.Applied(done.Report, done.Err, done.Programmed)
	if a.dry != nil {
		a.dry.applied()
		return
	}
	a.events.Applied(done)
}

// network describes the HNS network that the agent waits for.
func (a *agent) network() string { return "the " + networkText(a.set.Network) }

// work runs the controller once no other agent is on the node and the network exists. Claims of the
// CNI plugin are answered before the network exists, because the first pod of a node may create it.
// Each claim waits until the cluster is known.
func (a *agent) work(ctx context.Context) error {
	if a.dry == nil { // a dry run writes nothing, so it may run beside another agent
		unlock, err := a.lock(ctx)
		if err != nil {
			return unlessDone(ctx, err)
		}
		// A call that hangs keeps the lock until the process ends.
		defer unlock()
	}
	ctx, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel()
	if a.dry == nil && a.set.CNIPipe != "" {
		beside.Go(func() { a.answerClaims(ctx) })
	}
	if err := waitForNetwork(ctx, a.client, a.set.Network, a.logger); err != nil {
		return unlessDone(ctx, err)
	}
	a.svc.OnlyOf(a.dp.HasPodAt) // until here no pod was known
	a.waiting.set("")
	beside.Go(func() { a.events.Run(ctx) })
	a.ctl.Run(ctx)
	return nil
}

// lock waits until no other agent of this node runs.
func (a *agent) lock(ctx context.Context) (unlock func(), err error) {
	const other = "another agent on this node to end"
	began := time.Now()
	unlock, err = a.host.lock(ctx, func() {
		a.logger.Info("waiting for " + other)
		a.waiting.set(other)
	})
	if err != nil {
		return nil, fmt.Errorf("keeping other agents off this node: %w", err)
	}
	a.waiting.set(a.network())
	a.logger.Info("no other agent is on this node", "waited", time.Since(began))
	return unlock, nil
}

// pages returns the content of the HTTP endpoints.
func (a *agent) pages() debug.Config {
	pages := debug.Config{
		Healthy: func() error {
			switch err := a.svc.Healthy(); {
			case err != nil:
				return err
			case a.waiting.get() != nil: // a restart would not help
				return nil
			}
			return a.ctl.Healthy()
		},
		Ready: func() error {
			if err := a.waiting.get(); err != nil {
				return err
			}
			if a.dry != nil {
				return errDryRun
			}
			return a.ctl.Ready()
		},
		Pprof: a.set.Pprof,
	}
	if a.set.DebugAPI {
		pages.Dump = a.dp.Dump
		pages.Recording = a.rec.Write
		pages.Version, pages.Settings = cli.Version(), a.set
	}
	if a.set.Metrics {
		pages.NodeMetrics, pages.ClusterMetrics, pages.PublicClusterMetrics = a.metrics.NodePage(), a.metrics.ClusterPage(), a.metrics.PublicClusterPage()
	}
	return pages
}
