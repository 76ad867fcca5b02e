package ui

import (
	"net/http"

	"github.com/winnpm/winnpm/tool/explain"
)

// trace answers as `kubectl npm trace -o json` does.
func (p *server) trace(s *snapshot, r *http.Request) (any, error) {
	q, err := explain.Parse(r.URL.Query().Get("q"))
	if err != nil {
		return nil, badRequest(err)
	}
	a, err := explain.Explain(s.dump, q, p.cfg.Places)
	if err != nil {
		return nil, badRequest(err) // an end that cannot be asked about
	}
	return a, nil
}
