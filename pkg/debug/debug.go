// Package debug serves the state, the health and the metrics of the agent over HTTP. It works
// on snapshots and never waits for HNS.
package debug

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/pprof"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/pkg/state"
)

// Paths of pages that the predecessor had too.
const (
	ManagerPath        = "/npm/v1/debug/manager" // the dump
	NodeMetricsPath    = "/node-metrics"
	ClusterMetricsPath = "/cluster-metrics"
)

// Config has the content of the endpoint. No function may wait for HNS.
type Config struct {
	Healthy func() error // an error is a reason to restart the process
	Ready   func() error // an error says why known objects may not be programmed

	// The pages of metrics; without NodeMetrics there are none. PublicClusterMetrics answers other
	// machines in place of ClusterMetrics. It shows no names of the cluster's objects.
	NodeMetrics, ClusterMetrics, PublicClusterMetrics http.Handler

	// Dump and Recording are for the debug pages; without Dump there are none. Recording writes the
	// last transactions and observations, as recorder.Recorder.Write does.
	Dump      func() state.Dump
	Recording func(io.Writer) error
	// Version is the version of the program. Settings are written to the bundle as JSON: no secret
	// may be in them.
	Version  string
	Settings any

	// Pprof adds the pages of net/http/pprof.
	Pprof bool
}

// Probes returns the handler of the probe endpoint: only /healthz and /readyz, and only for clients
// on this machine. It is for a listener that pods cannot reach.
func Probes(cfg Config) http.Handler {
	pages := http.NewServeMux()
	pages.Handle("GET /healthz", local(check(cfg.Healthy)))
	pages.Handle("GET /readyz", local(check(cfg.Ready)))
	return pages
}

// Handler returns the handler of the HTTP endpoint. Health and metrics answer all machines, and show
// names of the cluster's objects only to clients on this machine. The other pages answer only
// clients on this machine. Health is never refused for load.
func Handler(cfg Config) http.Handler {
	pages := http.NewServeMux()
	open := func(path string, here, elsewhere http.Handler) {
		pages.Handle("GET "+path, byPlace(here, elsewhere))
	}
	open("/healthz", check(cfg.Healthy), check(unnamed(cfg.Healthy)))
	open("/readyz", check(cfg.Ready), check(unnamed(cfg.Ready)))
	scrapes := make(slots, scrapesAtOnce)
	if cfg.NodeMetrics != nil {
		metrics := scrapes.scrape(cfg.NodeMetrics)
		open(NodeMetricsPath, metrics, metrics)
		open(ClusterMetricsPath, scrapes.scrape(cfg.ClusterMetrics), scrapes.scrape(cfg.PublicClusterMetrics))
	}
	heavy := make(slots, heavyAtOnce)
	for path, page := range cfg.heavy() {
		pages.Handle("GET "+path, local(heavy.bound(page)))
	}
	return pages
}

// heavy returns the enabled pages that cost memory or processor time that grows with the cluster, by
// their paths.
func (cfg Config) heavy() map[string]http.HandlerFunc {
	pages := map[string]http.HandlerFunc{}
	if cfg.Dump != nil {
		pages[ManagerPath] = stream("application/json", func(w io.Writer) error { return writeManager(w, cfg.Dump()) })
		pages[StatusPath] = stream("application/json", func(w io.Writer) error {
			return json.NewEncoder(w).Encode(StatusOf(cfg.Dump(), cfg.Version, cfg.Healthy, cfg.Ready))
		})
		pages[TransactionsPath] = stream("application/x-ndjson", cfg.Recording)
		pages[BundlePath] = stream("application/zip", func(w io.Writer) error { return WriteBundle(w, cfg) })
	}
	if cfg.Pprof {
		// The package registers these pages only on the default mux, which has no guards.
		pages["/debug/pprof/"], pages["/debug/pprof/cmdline"] = pprof.Index, pprof.Cmdline
		pages["/debug/pprof/profile"], pages["/debug/pprof/symbol"], pages["/debug/pprof/trace"] = pprof.Profile, pprof.Symbol, pprof.Trace
	}
	return pages
}

// stream returns a page that write writes piece by piece. If write fails, the connection is
// aborted, so that an incomplete answer does not look complete.
func stream(contentType string, write func(io.Writer) error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		if write(w) != nil {
			panic(http.ErrAbortHandler)
		}
	}
}

// unnamed returns a check whose error omits the reason, because that may name objects.
func unnamed(state func() error) func() error {
	return func() error {
		if state() != nil {
			return errors.New("not ok; the reason is shown only on the node itself and by kubectl npm status")
		}
		return nil
	}
}

// check answers 200 "ok", or 503 with the reason.
func check(state func() error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := state(); err != nil { // read with curl, and in Events of the kubelet
			http.Error(w, cli.Printable(err.Error()), http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n") // a client that has gone is no concern
	})
}

// TransactionsPath answers with the recording of the last transactions and observations, including
// the running one: a line of JSON with the recorder.Header, then one for each recorder.Step.
const TransactionsPath = "/npm/v1/debug/transactions"
