package recorder

import (
	"context"

	"github.com/winnpm/winnpm/pkg/hns"
)

// Client returns a client that records the calls of next in the step of their context. It neither
// keeps nor changes arguments and results.
func (r *Recorder) Client(next hns.Client) hns.Client { return &client{r, next} }

type client struct {
	r    *Recorder
	next hns.Client
}

// begin records a call before it is made. Its caller calls end with the call's result. A call
// that is made for no step is not recorded.
func (c *client) begin(ctx context.Context, op, endpoint string, count int) (end func(count int, err error)) {
	rec, ok := ctx.Value(stepKey{}).(*record)
	if !ok || rec.r != c.r {
		return func(int, error) {}
	}
	r, call := c.r, &Call{Op: op, Endpoint: endpoint, Count: count, Running: true}
	r.mu.Lock()
	defer r.mu.Unlock()
	call.Began = r.cfg.Now()
	rec.calls = append(rec.calls, call)
	if len(rec.calls) > maxCalls {
		rec.calls = rec.calls[1:]
		rec.step.MoreCalls++
	}
	return func(count int, err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		call.Took, call.Running, call.Count, call.Error = r.cfg.Now().Sub(call.Began), false, count, newError(err)
	}
}

// Network implements hns.Client.
func (c *client) Network(ctx context.Context) (hns.Network, error) {
	end := c.begin(ctx, hns.OpNetworkGet, "", 0)
	n, err := c.next.Network(ctx)
	end(len(n.Sets), err)
	return n, err
}

// EndpointIDs implements hns.Client.
func (c *client) EndpointIDs(ctx context.Context) ([]string, error) {
	end := c.begin(ctx, hns.OpEndpointIDs, "", 0)
	ids, err := c.next.EndpointIDs(ctx)
	end(len(ids), err)
	return ids, err
}

// NewEndpointIDs implements hns.Client.
func (c *client) NewEndpointIDs(ctx context.Context) ([]string, error) {
	end := c.begin(ctx, hns.OpEndpointNew, "", 0)
	ids, err := c.next.NewEndpointIDs(ctx)
	end(len(ids), err)
	return ids, err
}

// Hold implements hns.Client.
func (c *client) Hold(ctx context.Context, endpoint string) func() { return c.next.Hold(ctx, endpoint) }

// GetEndpoint implements hns.Client.
func (c *client) GetEndpoint(ctx context.Context, id string) (hns.Endpoint, error) {
	end := c.begin(ctx, hns.OpEndpointGet, id, 0)
	e, err := c.next.GetEndpoint(ctx, id)
	end(len(e.Policies), err)
	return e, err
}

// ModifySets implements hns.Client.
func (c *client) ModifySets(ctx context.Context, verb hns.Verb, sets []hns.SetPolicy) error {
	end := c.begin(ctx, hns.OpSets(verb), "", len(sets))
	err := c.next.ModifySets(ctx, verb, sets)
	end(len(sets), err)
	return err
}

// AddACLs implements hns.Client.
func (c *client) AddACLs(ctx context.Context, endpoint string, acls []hns.ACL) error {
	end := c.begin(ctx, hns.OpACLAdd, endpoint, len(acls))
	err := c.next.AddACLs(ctx, endpoint, acls)
	end(len(acls), err)
	return err
}

// ReplacePolicies implements hns.Client.
func (c *client) ReplacePolicies(ctx context.Context, endpoint string, policies []hns.EndpointPolicy) error {
	end := c.begin(ctx, hns.OpACLUpdate, endpoint, len(policies))
	err := c.next.ReplacePolicies(ctx, endpoint, policies)
	end(len(policies), err)
	return err
}
