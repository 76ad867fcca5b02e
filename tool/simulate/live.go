package simulate

import (
	"context"
	"io"

	"github.com/winnpm/winnpm/pkg/debug"
)

// Live is a simulated node that follows its source. The end-to-end suite runs it beside a real API
// server.
type Live struct{ session *session }

// Start starts a simulation and waits for its first convergence. The simulation ends with ctx.
func Start(ctx context.Context, o Options) (*Live, error) {
	in, err := open(o, false)
	if err != nil {
		return nil, err
	}
	s := newSession(o, in, true)
	go s.controller.Run(ctx)
	if err := s.settle(ctx, o); err != nil {
		return nil, err
	}
	return &Live{s}, nil
}

// Pages returns the pages of the simulated agent's HTTP endpoint.
func (l *Live) Pages() debug.Config { return l.session.pages() }

// WriteResult writes the present result as JSON, with the verdicts that matrix, trace and all ask for
// as the fields of Options do.
func (l *Live) WriteResult(ctx context.Context, w io.Writer, matrix, trace []string, all bool) error {
	q, err := parseQuestions(matrix, trace)
	if err != nil {
		return err
	}
	q.all = all
	return l.session.result(ctx, q, func(r Result) error { return r.writeJSON(w) })
}
