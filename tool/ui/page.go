// Package ui shows the agents of a cluster, a saved dump or a simulation in a browser. It serves an
// embedded page of plain HTML, CSS and JavaScript modules, and the JSON that the page requests.
//
// Every answer is computed from a dump. The page sends requests only to its own server, and never
// interprets text of the cluster as HTML.
package ui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/explain"
)

// DefaultListen is the address of the server unless the user chooses another one.
const DefaultListen = "127.0.0.1:10091"

// Config is the configuration of one node's page.
type Config struct {
	// Dump returns the current dump of the node.
	Dump func(context.Context) (state.Dump, error)
	// Status returns the current status of the agent.
	Status func(context.Context) (debug.Status, error)
	// MaxAge is the age at which a dump is replaced. 0 means that the dump never changes.
	MaxAge time.Duration
	Places explain.Places // the places of policies in manifests; nil without manifests
}

// Fixed returns the configuration for a dump that does not change. The page shows origin as the
// agent's version.
func Fixed(d state.Dump, places explain.Places, origin string) Config {
	fine := func() error { return nil }
	return Config{
		Dump:   func(context.Context) (state.Dump, error) { return d, nil },
		Status: func(context.Context) (debug.Status, error) { return debug.StatusOf(d, origin, fine, fine), nil },
		Places: places,
	}
}

// Handler returns the page of one node at /, its files below /ui/ and its JSON below /api/. It answers only
// GET. Its answers contain names and addresses of the whole cluster, so protect it with OwnSite and
// debug.ByAddress.
func Handler(cfg Config) http.Handler {
	p := &server{cfg: cfg, snapshots: newSnapshots(cfg)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", serveStatic)
	mux.HandleFunc("GET /ui/{name}", serveStatic)
	mux.HandleFunc("GET /api/status", p.status)
	for path, make := range map[string]answer{
		"matrix": serveMatrix, "trace": p.trace,
		"pods": listPods, "pods/{namespace}/{name}": showPod,
		"policies": listPolicies, "policies/{namespace}/{name}": showPolicy, "clusterpolicies/{name}": showPolicy,
	} {
		mux.HandleFunc("GET /api/"+path, func(w http.ResponseWriter, r *http.Request) {
			s, err := p.snapshots.get(r.Context())
			var body any
			if err == nil {
				body, err = make(s, r)
			}
			reply(w, r, body, err)
		})
	}
	return secured(mux)
}

type server struct {
	cfg       Config
	snapshots *snapshots
}

// pageStatus is the status of an agent, and the time of the dump that the page shows.
type pageStatus struct {
	debug.Status
	Fixed bool      `json:"fixed,omitempty"` // the dump never changes
	Shown time.Time `json:"shown"`           // the time of the dump that the page shows
}

func (p *server) status(w http.ResponseWriter, r *http.Request) {
	s, err := p.snapshots.get(r.Context())
	var st debug.Status
	if err == nil {
		st, err = p.cfg.Status(r.Context())
	}
	if err != nil {
		reply(w, r, nil, err)
		return
	}
	reply(w, r, pageStatus{st, p.cfg.MaxAge == 0, s.dump.Time}, nil)
}

// secured lets the browser run and load only the files of this server, and forbids frames.
func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		next.ServeHTTP(w, r)
	})
}

// answer computes the answer to a request from a snapshot.
type answer func(*snapshot, *http.Request) (any, error)

// refusal is an error that the client caused, with its HTTP status.
type refusal struct {
	status int
	err    error
}

func (e refusal) Error() string { return e.err.Error() }
func (e refusal) Unwrap() error { return e.err }

// badRequest returns the error for an invalid request, and notFound the error for an unknown object.
func badRequest(err error) error { return refusal{http.StatusBadRequest, err} }

func notFound(format string, args ...any) error {
	return refusal{http.StatusNotFound, fmt.Errorf(format, args...)}
}

// reply writes the body as JSON, or the error.
func reply(w http.ResponseWriter, r *http.Request, body any, err error) {
	if r.Context().Err() != nil {
		return // the client has gone
	}
	status := http.StatusOK
	if err != nil {
		status = http.StatusBadGateway // the agent did not answer
		if refused := (refusal{}); errors.As(err, &refused) {
			status = refused.status
		}
		body = struct {
			Error string `json:"error"`
		}{err.Error()}
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // fails only if the client has gone
}

// trace returns the same answer as `kubectl npm trace -o json`.
func (p *server) trace(s *snapshot, r *http.Request) (any, error) {
	q, err := explain.Parse(r.URL.Query().Get("q"))
	if err != nil {
		return nil, badRequest(err)
	}
	a, err := explain.Explain(s.dump, q, p.cfg.Places)
	if err != nil {
		return nil, badRequest(err) // the request names an unknown end
	}
	return a, nil
}
