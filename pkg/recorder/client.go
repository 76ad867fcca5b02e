package recorder

import (
	"context"

	"github.com/winnpm/winnpm/pkg/hns"
)

// Client returns a client that records the calls of next in the step of their context. It neither
// keeps nor changes arguments and results. A call that is made for no step is not recorded.
func (r *Recorder) Client(next hns.Client) hns.Client {
	return hns.Wrap(next, func(ctx context.Context, req hns.Request, do func() hns.Result) hns.Result {
		rec, ok := ctx.Value(stepKey{}).(*record)
		if !ok || rec.r != r {
			return do()
		}
		call := &Call{Op: req.Op, Endpoint: req.Endpoint, Count: len(req.Sets) + len(req.ACLs) + len(req.Policies), Running: true}
		r.mu.Lock()
		call.Began = r.cfg.Now()
		rec.calls = append(rec.calls, call)
		if len(rec.calls) > maxCalls {
			rec.calls = rec.calls[1:]
			rec.step.MoreCalls++
		}
		r.mu.Unlock()
		out := do()
		r.mu.Lock()
		defer r.mu.Unlock()
		call.Took, call.Running, call.Error = r.cfg.Now().Sub(call.Began), false, newError(out.Err)
		call.Count += len(out.Network.Sets) + len(out.IDs) + len(out.Endpoint.Policies)
		return out
	})
}
