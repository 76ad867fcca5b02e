package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
)

// Client returns a client that measures every call of c, and passes arguments
// and results through untouched.
func (m *Metrics) Client(c hns.Client) hns.Client {
	return hns.Wrap(c, func(_ context.Context, r hns.Request, do func() hns.Result) hns.Result {
		m.calls.begun.WithLabelValues(r.Op).Inc()
		start := m.now()
		out := do()
		m.calls.ended(r, out.Err, m.now().Sub(start))
		return out
	})
}

// ended takes a call that has ended. An endpoint that is gone is an answer and no failure of a
// read: it is the usual answer after a pod has ended. Nor is an endpoint of another network or
// node a failure.
func (c *calls) ended(r hns.Request, err error, took time.Duration) {
	failed := err != nil
	if failed {
		c.errors.WithLabelValues(r.Op, classOf(err)).Inc()
	}
	wroteACLs := func(operation string) {
		c.acl.observe(took, failed, operation)
		c.addACLMillis.Observe(millis(took))
	}
	switch r.Op {
	case hns.OpNetworkGet:
		c.getNetwork.observe(took, failed)
	case hns.OpEndpointIDs, hns.OpEndpointNew:
		c.enumerate.observe(took, failed)
	case hns.OpEndpointGet:
		c.getEndpoint.observe(took, failed && !hns.EndpointGone(err) && !errors.Is(err, hns.ErrElsewhere))
	case hns.OpACLAdd:
		wroteACLs(create)
	case hns.OpACLUpdate:
		wroteACLs(update)
	default:
		nested := len(r.Sets) > 0 && r.Sets[0].Type == hns.NestedIPSet // a request has sets of one type
		c.setPolicy.observe(took, failed, verbs[r.Verb()], yesNo(nested))
		if r.Verb() == hns.Add {
			c.addSetMillis.Observe(millis(took))
		}
	}
}
