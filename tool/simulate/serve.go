package simulate

import (
	"bytes"
	"errors"
	"net/http"
	"time"

	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/tool/explain"
	"github.com/winnpm/winnpm/tool/ui"
)

// handler is the debug endpoint of the agent, and beside it the result, with
// the verdicts that the query asks for.
func (s *session) handler() http.Handler {
	return debug.Handler(s.pages())
}

// pages is what the debug endpoint shows.
func (s *session) pages() debug.Config {
	return debug.Config{
		Dump: s.dataplane.Dump, Healthy: s.controller.Healthy, Ready: s.controller.Ready,
		Transactions: s.recorder.Brief, Recording: s.recorder.Write, Version: s.version,
		Settings: map[string]any{"simulated": true, "node": s.node},
		Pages: append(debug.Site(ui.Handler(ui.Config{
			Dump: s.dataplane.Dump, Healthy: s.controller.Healthy, Ready: s.controller.Ready,
			Now: time.Now, Version: "simulation", Places: s.places,
		}), ui.Heavy()...), debug.Page{Path: "/npm/v1/simulate", Handler: http.HandlerFunc(s.serveResult), Heavy: true}),
	}
}

func (s *session) serveResult(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	q, err := parseQuestions(query["matrix"], query["trace"])
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	q.all = query.Has("all")
	// Not straight to the client: a slow one would hold up the worker.
	var body bytes.Buffer
	err = s.result(r.Context(), q, func(r Result) error { return r.writeJSON(&body) })
	switch {
	case errors.Is(err, explain.ErrNoEnd):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = body.WriteTo(w) // a client that has gone is no concern
	}
}
