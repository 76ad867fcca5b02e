package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
)

// Client returns a client that measures every call of c, and passes arguments
// and results through untouched.
func (m *Metrics) Client(c hns.Client) hns.Client { return &client{next: c, m: m} }

type client struct {
	next hns.Client
	m    *Metrics
}

// begin counts a call. The function that is returned is called with the call's error and
// returns how long the call took.
func (c *client) begin(operation string) func(error) time.Duration {
	c.m.calls.begun.WithLabelValues(operation).Inc()
	start := c.m.now()
	return func(err error) time.Duration {
		if err != nil {
			c.m.calls.errors.WithLabelValues(operation, classOf(err)).Inc()
		}
		return c.m.now().Sub(start)
	}
}

// Network implements hns.Client.
func (c *client) Network(ctx context.Context) (hns.Network, error) {
	end := c.begin(hns.OpNetworkGet)
	n, err := c.next.Network(ctx)
	c.m.calls.getNetwork.observe(end(err), err != nil)
	return n, err
}

// EndpointIDs implements hns.Client.
func (c *client) EndpointIDs(ctx context.Context) ([]string, error) {
	end := c.begin(hns.OpEndpointIDs)
	ids, err := c.next.EndpointIDs(ctx)
	c.m.calls.enumerate.observe(end(err), err != nil)
	return ids, err
}

// NewEndpointIDs implements hns.Client.
func (c *client) NewEndpointIDs(ctx context.Context) ([]string, error) {
	end := c.begin(hns.OpEndpointNew)
	ids, err := c.next.NewEndpointIDs(ctx)
	c.m.calls.enumerate.observe(end(err), err != nil)
	return ids, err
}

// Hold implements hns.Client.
func (c *client) Hold(ctx context.Context, endpoint string) func() { return c.next.Hold(ctx, endpoint) }

// GetEndpoint implements hns.Client. An endpoint that is gone is an answer and no failure:
// it is the usual answer after a pod has ended. Nor is an endpoint of another network or
// node a failure.
func (c *client) GetEndpoint(ctx context.Context, id string) (hns.Endpoint, error) {
	end := c.begin(hns.OpEndpointGet)
	e, err := c.next.GetEndpoint(ctx, id)
	c.m.calls.getEndpoint.observe(end(err), err != nil && !hns.EndpointGone(err) && !errors.Is(err, hns.ErrElsewhere))
	return e, err
}

// ModifySets implements hns.Client.
func (c *client) ModifySets(ctx context.Context, verb hns.Verb, sets []hns.SetPolicy) error {
	nested := len(sets) > 0 && sets[0].Type == hns.NestedIPSet // a request has sets of one type
	end := c.begin(hns.OpSets(verb))
	err := c.next.ModifySets(ctx, verb, sets)
	took := end(err)
	c.m.calls.setPolicy.observe(took, err != nil, verbs[verb], yesNo(nested))
	if verb == hns.Add {
		c.m.calls.addSetMillis.Observe(millis(took))
	}
	return err
}

// AddACLs implements hns.Client.
func (c *client) AddACLs(ctx context.Context, endpoint string, acls []hns.ACL) error {
	end := c.begin(hns.OpACLAdd)
	err := c.next.AddACLs(ctx, endpoint, acls)
	c.m.calls.wroteACLs(end(err), err, create)
	return err
}

// ReplacePolicies implements hns.Client.
func (c *client) ReplacePolicies(ctx context.Context, endpoint string, policies []hns.EndpointPolicy) error {
	end := c.begin(hns.OpACLUpdate)
	err := c.next.ReplacePolicies(ctx, endpoint, policies)
	c.m.calls.wroteACLs(end(err), err, update)
	return err
}

func (c *calls) wroteACLs(took time.Duration, err error, operation string) {
	c.acl.observe(took, err != nil, operation)
	c.addACLMillis.Observe(millis(took))
}
