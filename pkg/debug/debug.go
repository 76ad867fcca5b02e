// Package debug answers over HTTP what the agent knows and how it is. It works
// on snapshots and never waits for HNS.
package debug

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/recorder"
)

// Where pages are, as they were with the predecessor.
const (
	ManagerPath        = "/npm/v1/debug/manager" // the dump
	NodeMetricsPath    = "/node-metrics"
	ClusterMetricsPath = "/cluster-metrics"
)

// Config is what the endpoint shows. No function may wait for HNS. A page that
// is nil answers 404.
type Config struct {
	Dump    func() dataplane.Dump
	Healthy func() error // nil: no reason to restart the process
	Ready   func() error // nil: everything known is programmed

	NodeMetrics, ClusterMetrics http.Handler

	// Transactions are the last steps in brief, Recording is all that was kept of
	// them.
	Transactions func() []recorder.Step
	Recording    func() recorder.Recording
	// Version of the program, and its Settings, are for the bundle. Settings are
	// written as JSON: no secret may be in them.
	Version  string
	Settings any

	// Pprof adds the pages of net/http/pprof.
	Pprof bool
	// Expose opens the dump and pprof to other machines: they tell names and
	// addresses of the whole cluster, and a profile costs what it measures.
	Expose bool
}

// Handler returns the endpoint, GET only: /healthz, /readyz and the metrics for
// everybody, the dump and pprof for this machine.
func Handler(cfg Config) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", check(cfg.Healthy))
	mux.Handle("GET /readyz", check(cfg.Ready))
	if cfg.NodeMetrics != nil {
		mux.Handle("GET "+NodeMetricsPath, cfg.NodeMetrics)
	}
	if cfg.ClusterMetrics != nil {
		mux.Handle("GET "+ClusterMetricsPath, cfg.ClusterMetrics)
	}

	guard := local
	if cfg.Expose {
		guard = func(page http.HandlerFunc) http.Handler { return page }
	}
	if cfg.Dump != nil {
		mux.Handle("GET "+ManagerPath, guard(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			// An error means that the client has gone: nobody is left to tell.
			_ = writeManager(w, cfg.Dump(), cfg.transactions())
		}))
	}
	if cfg.Transactions != nil {
		mux.Handle("GET "+TransactionsPath, guard(cfg.serveTransactions))
	}
	if cfg.Dump != nil && cfg.Recording != nil {
		mux.Handle("GET "+BundlePath, guard(cfg.serveBundle))
	}
	if cfg.Pprof {
		// By hand: the package's own registration is on the default mux, unguarded.
		mux.Handle("GET /debug/pprof/", guard(pprof.Index))
		mux.Handle("GET /debug/pprof/cmdline", guard(pprof.Cmdline))
		mux.Handle("GET /debug/pprof/profile", guard(pprof.Profile))
		mux.Handle("GET /debug/pprof/symbol", guard(pprof.Symbol))
		mux.Handle("GET /debug/pprof/trace", guard(pprof.Trace))
	}
	return mux
}

// check answers 200 "ok", or 503 with the reason.
func check(state func() error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := state(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n") // a client that has gone is no concern
	})
}

// Serve answers requests on l until ctx is done, then gives those in progress
// a second to end. It closes l.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	srv := newServer(ctx, h)
	ended := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		err := srv.Shutdown(grace)
		if err != nil {
			err = srv.Close()
		}
		ended <- err
	})
	err := srv.Serve(l)
	if stop() {
		return fmt.Errorf("serve on %s: %w", l.Addr(), err) // ctx is not why it ended
	}
	return <-ended
}

func newServer(ctx context.Context, h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      5 * time.Minute, // a dump of a large cluster over a slow line, a profile
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    64 << 10,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
}
