package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/metrics"
)

// shutdownWait is how long the end waits for the worker. It gives up its call
// to HNS when it is told to stop, so more means that something hangs.
const shutdownWait = 5 * time.Second

// settings are what npm start was told.
type settings struct {
	config
	node       string
	kubeconfig string // "" as a pod of the cluster
	listen     string // address
	reconcile  time.Duration
}

// agent is one run of npm start.
type agent struct {
	set     settings
	svc     service
	client  hns.Client // svc, measured
	logger  klog.Logger
	waiting phase

	dp      *dataplane.Dataplane
	ctl     *controllers.Controller
	metrics *metrics.Metrics
}

// runAgent works until ctx is done, which is no error.
func runAgent(ctx context.Context, set settings, svc service, logger klog.Logger) error {
	api, err := controllers.RESTConfig(set.kubeconfig)
	if err != nil {
		return err
	}
	source, err := controllers.ClusterSource(api, set.node)
	if err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", set.listen)
	if err != nil {
		return fmt.Errorf("HTTP endpoint: %w; another address goes into --listen or ListeningAddress and ListeningPort", err)
	}
	addr := l.Addr().String()
	logger.Info("starting", "node", set.node, "server", api.Host, "network", set.Network, "listening", addr, "version", version())
	logger.Info("Starting NPM HTTP API on " + addr) // runbooks search for this line

	a := newAgent(set, source, svc, logger)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 2)
	go func() { ended <- debug.Serve(ctx, l, debug.Handler(a.pages())) }()
	go func() { ended <- a.work(ctx) }()
	err = <-ended // both end with ctx, and one that ends before takes the other along
	cancel()
	timer := time.NewTimer(shutdownWait)
	defer timer.Stop()
	select {
	case other := <-ended:
		err = errors.Join(err, other)
	case <-timer.C:
		warn(logger, "HNS has not returned from a call, ending without waiting for it", "waited", shutdownWait)
	}
	return err
}

// newAgent wires the parts. It does no I/O.
func newAgent(set settings, source controllers.Source, svc service, logger klog.Logger) *agent {
	a := &agent{set: set, svc: svc, logger: logger}
	a.waiting.set(fmt.Sprintf("the HNS network %q", set.Network))
	a.metrics = metrics.New(metrics.Options{
		Version: version(), Now: time.Now,
		// What they read is made below, of what is made here.
		Stats:     func() dataplane.Stats { return a.dp.Stats() },
		Staleness: func() map[controllers.Kind]time.Duration { return a.ctl.Staleness() },
	})
	a.client = a.metrics.Client(svc)
	var base []hns.ACL
	if set.Network == networkCalico {
		base = dataplane.CalicoBase()
	}
	a.dp = dataplane.New(dataplane.Config{
		Client: a.client, Node: set.node, Now: time.Now,
		GracePeriod: set.reconcile, MaxBatchedACLs: set.MaxBatchedACLs, BaseACLs: base,
	})
	a.ctl = controllers.New(controllers.Config{
		Source: source, Applier: a.dp, Observer: a.dp, OnApplied: a.metrics.Applied,
		Node: set.node, RequireNodeAddr: true,
		ApplyInterval: set.ApplyInterval, ReconcileInterval: set.reconcile, Logger: logger,
	})
	return a
}

// work runs the controller as soon as there is something to work on.
func (a *agent) work(ctx context.Context) error {
	err := waitForNetwork(ctx, a.client, a.set.Network, a.logger)
	if err == nil {
		err = checkVersion(ctx, a.svc, a.logger)
	}
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	a.waiting.set("")
	a.ctl.Run(ctx)
	return nil
}

// pages is what the HTTP endpoint shows.
func (a *agent) pages() debug.Config {
	pages := debug.Config{
		Healthy: func() error {
			switch err := a.svc.Healthy(); {
			case err != nil:
				return err
			case a.waiting.get() != nil: // a restart would change nothing
				return nil
			}
			return a.ctl.Healthy()
		},
		Ready: func() error {
			if err := a.waiting.get(); err != nil {
				return err
			}
			return a.ctl.Ready()
		},
		Pprof:  a.set.Pprof,
		Expose: a.set.ExposeDebug,
	}
	if a.set.DebugAPI {
		pages.Dump = a.dp.Dump
	}
	if a.set.Metrics {
		pages.NodeMetrics, pages.ClusterMetrics = a.metrics.Node(), a.metrics.Cluster()
	}
	return pages
}
