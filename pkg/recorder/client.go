package recorder

import (
	"context"
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/dllcalls"
)

// Client returns next, recorded: the calls that are made for a step are kept with
// it, all others pass. Arguments and results are not changed.
func (r *Recorder) Client(next hns.Client) hns.Client { return &client{r, next} }

type client struct {
	r    *Recorder
	next hns.Client
}

// call is one that is being made. It is nil for one that is not kept.
type call struct {
	rec   *record
	is    *Call
	meter dllcalls.Meter
}

// sent fills in what was sent, and returns about what it takes.
type sent func(c *Call) int

// read fills in what was read, and returns about what that takes: of its own, and
// of what later calls share.
type read func(s *seen, c *Call) (own, shared int)

// of returns the step that a call is made for, nil for none.
func (c *client) of(ctx context.Context) *record {
	rec, ok := ctx.Value(stepKey{}).(*record)
	if !ok || rec.r != c.r {
		return nil
	}
	return rec
}

// begin keeps a call with what is sent, which may be nil. The call is made with
// the context that is returned.
func (c *client) begin(ctx context.Context, op, endpoint string, sent sent) (context.Context, *call) {
	rec := c.of(ctx)
	if rec == nil {
		return ctx, nil
	}
	k := &call{rec: rec, is: &Call{Op: op, Endpoint: endpoint, Running: true}}
	ctx = dllcalls.Metered(ctx, &k.meter)
	size := callBytes
	if sent != nil {
		size += sent(k.is)
	}
	r := c.r
	r.mu.Lock()
	defer r.mu.Unlock()
	k.is.Began = r.cfg.Now()
	rec.calls = append(rec.calls, k.is)
	if rec.seg.lost {
		*k.is = k.is.brief()
	}
	r.growLocked(rec, size)
	return ctx, k
}

// end keeps how the call ended; read may be nil.
func (k *call) end(err error, read read) {
	if k == nil {
		return
	}
	r := k.rec.r
	r.mu.Lock()
	took, lost, seen := r.cfg.Now().Sub(k.is.Began), k.rec.seg.lost, k.rec.seg.seen
	result := *k.is
	r.mu.Unlock()

	result.Took, result.Running, result.Error = took, false, newError(err)
	own, shared := 0, 0
	switch {
	case err != nil:
		own = errorBytes + len(result.Error.Message)
	case read != nil && !lost:
		own, shared = read(seen, &result)
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	if k.rec.seg.lost {
		result = result.brief()
	}
	result.DLLCalls = k.is.DLLCalls + k.meter.Calls()
	*k.is = result
	k.rec.shared += shared
	r.growLocked(k.rec, own+shared)
}

// Network implements hns.Client.
func (c *client) Network(ctx context.Context) (hns.Network, error) {
	ctx, k := c.begin(ctx, hns.OpNetworkGet, "", nil)
	n, err := c.next.Network(ctx)
	k.end(err, func(s *seen, to *Call) (own, shared int) { return s.keepNetwork(to, n) })
	return n, err
}

// EndpointIDs implements hns.Client.
func (c *client) EndpointIDs(ctx context.Context) ([]string, error) {
	ctx, k := c.begin(ctx, hns.OpEndpointIDs, "", nil)
	ids, err := c.next.EndpointIDs(ctx)
	k.end(err, func(s *seen, to *Call) (own, shared int) { return s.keepIDs(to, ids) })
	return ids, err
}

// NewEndpointIDs implements hns.Client.
func (c *client) NewEndpointIDs(ctx context.Context) ([]string, error) {
	ctx, k := c.begin(ctx, hns.OpEndpointNew, "", nil)
	ids, err := c.next.NewEndpointIDs(ctx)
	k.end(err, func(s *seen, to *Call) (own, shared int) { return s.keepIDs(to, ids) })
	return ids, err
}

// Hold implements hns.Client. What the release of the handle takes is added to the
// last call that shared it.
func (c *client) Hold(ctx context.Context, endpoint string) func() {
	rec := c.of(ctx)
	if rec == nil {
		return c.next.Hold(ctx, endpoint)
	}
	var meter dllcalls.Meter
	release := c.next.Hold(dllcalls.Metered(ctx, &meter), endpoint)
	return func() {
		release()
		c.r.mu.Lock()
		defer c.r.mu.Unlock()
		for _, k := range slices.Backward(rec.calls) {
			if k.Endpoint == endpoint {
				k.DLLCalls += meter.Calls()
				return
			}
		}
	}
}

// GetEndpoint implements hns.Client.
func (c *client) GetEndpoint(ctx context.Context, id string) (hns.Endpoint, error) {
	ctx, k := c.begin(ctx, hns.OpEndpointGet, id, nil)
	e, err := c.next.GetEndpoint(ctx, id)
	k.end(err, func(s *seen, to *Call) (own, shared int) { return s.keepEndpoint(to, e) })
	return e, err
}

// ModifySets implements hns.Client.
func (c *client) ModifySets(ctx context.Context, verb hns.Verb, sets []hns.SetPolicy) error {
	ctx, k := c.begin(ctx, hns.OpSets(verb), "", func(to *Call) int { return to.keepSets(sets) })
	err := c.next.ModifySets(ctx, verb, sets)
	k.end(err, nil)
	return err
}

// AddACLs implements hns.Client.
func (c *client) AddACLs(ctx context.Context, endpoint string, acls []hns.ACL) error {
	ctx, k := c.begin(ctx, hns.OpACLAdd, endpoint, func(to *Call) int { return to.keepACLs(acls) })
	err := c.next.AddACLs(ctx, endpoint, acls)
	k.end(err, nil)
	return err
}

// ReplacePolicies implements hns.Client.
func (c *client) ReplacePolicies(ctx context.Context, endpoint string, policies []hns.EndpointPolicy) error {
	ctx, k := c.begin(ctx, hns.OpACLUpdate, endpoint, func(to *Call) int { return to.keepPolicies(policies) })
	err := c.next.ReplacePolicies(ctx, endpoint, policies)
	k.end(err, nil)
	return err
}
