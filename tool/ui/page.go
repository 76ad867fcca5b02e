// Package ui is what a person sees of the agent in a browser: a page of plain
// HTML, CSS and JavaScript modules, embedded, and the JSON that it asks for.
//
// Everything is made from a dump, which is taken at most once a second for all
// who look, and matrices one at a time: each has a fifth of a core at most. What
// a client asks for is given up when it goes. The page asks nobody but this
// server, and shows what comes from the cluster as text only.
package ui

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"time"

	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/explain"
)

// apiPath is where the JSON is, beside the rest of the debug endpoint.
const apiPath = "/npm/v1/debug/"

// Heavy are the paths whose answers take time that grows with the cluster's
// workloads, rules or policies.
func Heavy() []string {
	return []string{apiPath + "matrix", apiPath + "find", apiPath + "policies", apiPath + "policies/", apiPath + "clusterpolicies/", apiPath + "pair", apiPath + "trace"}
}

// Config is what the page shows. No function may wait for HNS.
type Config struct {
	Dump    func() state.Dump
	Healthy func() error // nil: no reason to restart the process
	Ready   func() error // nil: everything known is programmed
	Now     func() time.Time
	Version string         // of the program
	Places  explain.Places // where manifests have the policies; nil where there are none
}

// Handler returns the page at / and /ui/, and its JSON below /npm/v1/debug/; GET
// only. It guards nothing: names and addresses of the whole cluster are in it.
func Handler(cfg Config) http.Handler {
	p := &server{cfg: cfg, snapshots: snapshots{dump: cfg.Dump, now: cfg.Now, grids: newPace(cfg.Now), judging: newPace(cfg.Now)}}
	mux := http.NewServeMux()
	static := newFiles()
	mux.HandleFunc("GET /{$}", static.index)
	mux.HandleFunc("GET /ui/{name}", static.file)
	mux.HandleFunc("GET "+apiPath+"status", p.live(p.status))
	mux.HandleFunc("GET "+apiPath+"matrix", p.settled(serveMatrix))
	mux.HandleFunc("GET "+apiPath+"find", p.settled(find))
	mux.HandleFunc("GET "+apiPath+"pair", p.settled(showPair))
	mux.HandleFunc("GET "+apiPath+"trace", p.live(p.trace))
	mux.HandleFunc("GET "+apiPath+"sets", p.settled(listSets))
	mux.HandleFunc("GET "+apiPath+"sets/{id}", p.settled(showSet))
	mux.HandleFunc("GET "+apiPath+"pods", p.settled(listPods))
	mux.HandleFunc("GET "+apiPath+"pods/{namespace}/{name}", p.settled(showPod))
	mux.HandleFunc("GET "+apiPath+"policies", p.settled(listPolicies))
	mux.HandleFunc("GET "+apiPath+"policies/{namespace}/{name}", p.settled(showPolicy))
	mux.HandleFunc("GET "+apiPath+"clusterpolicies/{name}", p.settled(showClusterPolicy))
	return secured(mux)
}

type server struct {
	cfg       Config
	snapshots snapshots
}

// secured lets the browser run and load only what this server gives it, and
// nobody put the page into a frame.
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

// answer makes what a request asks for from a snapshot.
type answer func(*snapshot, *http.Request) (any, error)

// live answers with what may be another thing each time.
func (p *server) live(make answer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s, err := p.snapshots.get(r.Context())
		if err != nil {
			return // the client has gone
		}
		w.Header().Set("Cache-Control", "no-store")
		reply(w, r, s, make)
	}
}

// settled answers with what follows from the snapshot and the request alone: who
// has it already is told so.
func (p *server) settled(make answer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s, err := p.snapshots.get(r.Context())
		if err != nil {
			return // the client has gone
		}
		question := fnv.New64a()
		fmt.Fprint(question, r.URL.Path, "?", r.URL.RawQuery)
		tag := fmt.Sprintf("\"%x-%x\"", s.digest, question.Sum64())
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		reply(w, r, s, make)
	}
}

// refusal is an error of the client's.
type refusal struct {
	status int
	err    error
}

func (e refusal) Error() string { return e.err.Error() }
func (e refusal) Unwrap() error { return e.err }

// badRequest is what cannot be asked, notFound what is not there.
func badRequest(err error) error { return refusal{http.StatusBadRequest, err} }

func notFound(format string, args ...any) error {
	return refusal{http.StatusNotFound, fmt.Errorf(format, args...)}
}

func reply(w http.ResponseWriter, r *http.Request, s *snapshot, make answer) {
	if r.Context().Err() != nil {
		return // the client went while it waited
	}
	body, err := make(s, r)
	status := http.StatusOK
	if err != nil {
		if r.Context().Err() != nil {
			return // the client has gone
		}
		status = http.StatusInternalServerError
		if refused := (refusal{}); errors.As(err, &refused) {
			status = refused.status
		}
		w.Header().Del("ETag")
		w.Header().Set("Cache-Control", "no-store")
		body = struct {
			Error string `json:"error"`
		}{err.Error()}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a client that has gone is no concern
}
