// Package debug answers over HTTP what the agent knows and how it is. It works
// on snapshots and never waits for HNS.
package debug

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"
	"strings"

	"github.com/winnpm/winnpm/pkg/printable"
	"github.com/winnpm/winnpm/pkg/recorder"
	"github.com/winnpm/winnpm/pkg/state"
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
	// Node is the name of the node, to which open pages answer.
	Node    string
	Dump    func() state.Dump
	Healthy func() error // nil: no reason to restart the process
	Ready   func() error // nil: everything known is programmed
	// Notes are lines of /readyz about what is no reason not to be ready. nil: none.
	Notes func() []string

	NodeMetrics, ClusterMetrics http.Handler
	// PublicClusterMetrics answers other machines in place of ClusterMetrics. It shows no names
	// of the cluster's objects. If it is nil, other machines get an error.
	PublicClusterMetrics http.Handler

	// Transactions are the last steps in brief, Recording writes all that was kept of
	// them.
	Transactions func() []recorder.Step
	Recording    func(io.Writer) error
	// Version of the program, and its Settings, are for the bundle. Settings are
	// written as JSON: no secret may be in them.
	Version  string
	Settings any

	// Pprof adds the pages of net/http/pprof.
	Pprof bool
	// Pages are shown beside those above.
	Pages []Page
}

// Page is one page of the endpoint, GET and HEAD only. Its handler may take the
// request to be small and without a body, and has no lock while it writes:
// clients are as slow as they please.
type Page struct {
	// Path is a pattern of http.ServeMux without a method: one path, or with a
	// slash at the end all below it.
	Path    string
	Handler http.Handler
	// Open pages answer other machines as well. The other pages show names and addresses of the
	// whole cluster.
	Open bool
	// Public answers other machines in place of Handler, if the page is Open. nil means that
	// Handler shows no names and answers all clients.
	Public http.Handler
	// Heavy pages cost memory or processor time that grows with the cluster, or
	// hold up what they measure. Few are answered at the same time. Their handlers
	// end soon when the request's context does.
	Heavy bool
	// vital pages are never refused for load. They answer a few bytes.
	vital bool
}

// health returns the pages that the kubelet asks for.
func (cfg Config) health() []Page {
	return []Page{
		{Path: "/healthz", Handler: check(cfg.Healthy, nil), Public: check(unnamed(cfg.Healthy), nil), Open: true, vital: true},
		{Path: "/readyz", Handler: check(cfg.Ready, cfg.Notes), Public: check(unnamed(cfg.Ready), counted(cfg.Notes)), Open: true, vital: true},
	}
}

// all returns the pages that are on.
func (cfg Config) all() []Page {
	pages := cfg.health()
	if cfg.NodeMetrics != nil {
		pages = append(pages, Page{Path: NodeMetricsPath, Handler: cfg.NodeMetrics, Open: true})
	}
	if cfg.ClusterMetrics != nil {
		pages = append(pages, Page{Path: ClusterMetricsPath, Handler: cfg.ClusterMetrics, Public: cfg.PublicClusterMetrics, Open: cfg.PublicClusterMetrics != nil})
	}
	if cfg.Dump != nil {
		pages = append(pages, Page{Path: ManagerPath, Heavy: true, Handler: http.HandlerFunc(cfg.serveManager)})
	}
	if cfg.Transactions != nil {
		pages = append(pages, Page{Path: TransactionsPath, Handler: http.HandlerFunc(cfg.serveTransactions)})
	}
	if cfg.Dump != nil && cfg.Recording != nil {
		pages = append(pages, Page{Path: BundlePath, Heavy: true, Handler: http.HandlerFunc(cfg.serveBundle)})
	}
	if cfg.Pprof {
		// By hand: the package's own registration is on the default mux, unguarded.
		for path, handler := range map[string]http.HandlerFunc{
			"":        pprof.Index,
			"cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace,
		} {
			pages = append(pages, Page{Path: "/debug/pprof/" + path, Heavy: true, Handler: handler})
		}
	}
	return append(pages, cfg.Pages...)
}

// Probes returns the handler of the probe endpoint: only /healthz and /readyz, and only for clients
// on this machine. It is for a listener that pods cannot reach.
func Probes(cfg Config) http.Handler {
	pages := http.NewServeMux()
	for _, page := range cfg.health() {
		pages.Handle("GET "+page.Path, local(page.Handler))
	}
	return small(ownSite(pages))
}

// Handler returns the handler of the HTTP endpoint. Open pages answer all machines, other pages only
// this machine.
func Handler(cfg Config) http.Handler {
	pages := http.NewServeMux()
	limits := newLimits()
	for _, page := range cfg.all() {
		bounded := limits.bound(page)
		if page.Open {
			if page.Public != nil {
				public := page
				public.Handler = page.Public
				bounded = byPlace(bounded, limits.bound(public))
			}
			bounded = ownName(cfg.Node, bounded)
		} else {
			bounded = local(bounded)
		}
		pages.Handle("GET "+page.Path, bounded)
	}
	return small(ownSite(pages))
}

// Site returns the pages of one handler: that at / and all below it, of which
// those at the paths of heavy are.
func Site(h http.Handler, heavy ...string) []Page {
	pages := []Page{{Path: "/", Handler: h}}
	for _, path := range heavy {
		pages = append(pages, Page{Path: path, Handler: h, Heavy: true})
	}
	return pages
}

// serveManager answers with the dump, which it writes piece by piece.
func (cfg Config) serveManager(w http.ResponseWriter, r *http.Request) {
	if r.Context().Err() != nil {
		return // the client went while it waited for its place
	}
	w.Header().Set("Content-Type", "application/json")
	// An error means that the client has gone: nobody is left to tell.
	_ = writeManager(attended{r.Context(), w}, cfg.Dump(), cfg.transactions())
}

// attended is a writer to a client. It fails as soon as the client has gone,
// although what was sent may still be on its way.
type attended struct {
	client context.Context
	io.Writer
}

// Write implements io.Writer.
func (a attended) Write(p []byte) (int, error) {
	if err := a.client.Err(); err != nil {
		return 0, err
	}
	return a.Writer.Write(p)
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

// counted returns a function that replaces the notes by their number, because their text may name
// objects.
func counted(notes func() []string) func() []string {
	return func() []string {
		if notes == nil {
			return nil
		}
		n := len(notes())
		if n == 0 {
			return nil
		}
		return []string{fmt.Sprintf("notes: %d; they are shown only on the node itself", n)}
	}
}

// check answers 200 "ok", or 503 with the reason, and the notes behind it.
func check(state func() error, notes func() []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		lines := []string{"ok"}
		code := http.StatusOK
		if err := state(); err != nil {
			lines[0], code = err.Error(), http.StatusServiceUnavailable
		}
		if notes != nil {
			lines = append(lines, notes()...)
		}
		for i := range lines { // read with curl, and in Events of the kubelet
			lines[i] = printable.Line(lines[i])
		}
		if text := strings.Join(lines, "\n"); code == http.StatusOK {
			_, _ = io.WriteString(w, text+"\n") // a client that has gone is no concern
		} else {
			http.Error(w, text, code)
		}
	})
}
