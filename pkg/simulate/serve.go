package simulate

import (
	"bytes"
	"errors"
	"net/http"

	"github.com/winnpm/winnpm/pkg/debug"
)

// handler is the debug endpoint of the agent, and beside it the result, with
// the verdicts that the query asks for.
func (s *session) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /npm/v1/simulate", s.serveResult)
	mux.Handle("/", debug.Handler(s.pages()))
	return mux
}

// pages is what the debug endpoint shows.
func (s *session) pages() debug.Config {
	return debug.Config{
		Dump: s.dataplane.Dump, Healthy: s.controller.Healthy, Ready: s.controller.Ready,
		Transactions: s.recorder.Brief, Recording: s.recorder.Recording, Version: s.version,
		Settings: map[string]any{"simulated": true, "node": s.node},
		Expose:   true, // it is where --serve says
	}
}

func (s *session) serveResult(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	q, err := parseQuestions(query["matrix"], query["trace"])
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	// Not straight to the client: a slow one would hold up the worker.
	var body bytes.Buffer
	err = s.result(r.Context(), q, func(r Result) error { return r.writeJSON(&body) })
	switch {
	case errors.Is(err, errNoPod):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = body.WriteTo(w) // a client that has gone is no concern
	}
}
