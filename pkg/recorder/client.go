package recorder

import (
	"context"
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
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
	rec *record
	is  *Call
}

// keep fills in what was sent or read, and returns about what it takes.
type keep func(s *seen, c *Call) int

// begin keeps a call with what is sent; sent may be nil.
func (c *client) begin(ctx context.Context, op, endpoint string, sent keep) *call {
	rec, ok := ctx.Value(stepKey{}).(*record)
	if !ok || rec.r != c.r {
		return nil
	}
	k := &call{rec, &Call{Op: op, Endpoint: endpoint, Running: true}}
	size := callBytes
	if sent != nil {
		size += sent(nil, k.is)
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
	return k
}

// end keeps how the call ended; read may be nil.
func (k *call) end(err error, read keep) {
	if k == nil {
		return
	}
	r := k.rec.r
	r.mu.Lock()
	took, lost, seen := r.cfg.Now().Sub(k.is.Began), k.rec.seg.lost, k.rec.seg.seen
	result := *k.is
	r.mu.Unlock()

	result.Took, result.Running, result.Error = took, false, newError(err)
	size := 0
	switch {
	case err != nil:
		size = errorBytes + len(result.Error.Message)
	case read != nil && !lost:
		size = read(seen, &result)
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	if k.rec.seg.lost {
		result = result.brief()
	}
	*k.is = result
	r.growLocked(k.rec, size)
}

// Network implements hns.Client.
func (c *client) Network(ctx context.Context) (hns.Network, error) {
	k := c.begin(ctx, hns.OpNetworkGet, "", nil)
	n, err := c.next.Network(ctx)
	k.end(err, func(s *seen, to *Call) int { return s.keepNetwork(to, n) })
	return n, err
}

// ListEndpoints implements hns.Client.
func (c *client) ListEndpoints(ctx context.Context) ([]hns.Endpoint, error) {
	k := c.begin(ctx, hns.OpEndpointList, "", nil)
	list, err := c.next.ListEndpoints(ctx)
	k.end(err, func(s *seen, to *Call) int { return s.keepEndpoints(to, list) })
	return list, err
}

// EndpointIDs implements hns.Client.
func (c *client) EndpointIDs(ctx context.Context) ([]string, error) {
	k := c.begin(ctx, hns.OpEndpointIDs, "", nil)
	ids, err := c.next.EndpointIDs(ctx)
	k.end(err, func(_ *seen, to *Call) int {
		to.IDs = slices.Clone(ids)
		return len(ids) * len("00000000-0000-0000-0000-000000000000")
	})
	return ids, err
}

// Hold implements hns.Client.
func (c *client) Hold(ctx context.Context, endpoint string) func() { return c.next.Hold(ctx, endpoint) }

// GetEndpoint implements hns.Client.
func (c *client) GetEndpoint(ctx context.Context, id string) (hns.Endpoint, error) {
	k := c.begin(ctx, hns.OpEndpointGet, id, nil)
	e, err := c.next.GetEndpoint(ctx, id)
	k.end(err, func(s *seen, to *Call) int { return s.keepEndpoints(to, []hns.Endpoint{e}) })
	return e, err
}

// ModifySets implements hns.Client.
func (c *client) ModifySets(ctx context.Context, verb hns.Verb, sets []hns.SetPolicy) error {
	k := c.begin(ctx, hns.OpSets(verb), "", func(_ *seen, to *Call) int { return to.keepSets(sets) })
	err := c.next.ModifySets(ctx, verb, sets)
	k.end(err, nil)
	return err
}

// AddACLs implements hns.Client.
func (c *client) AddACLs(ctx context.Context, endpoint string, acls []hns.ACL) error {
	k := c.begin(ctx, hns.OpACLAdd, endpoint, func(_ *seen, to *Call) int { return to.keepACLs(acls) })
	err := c.next.AddACLs(ctx, endpoint, acls)
	k.end(err, nil)
	return err
}

// ReplacePolicies implements hns.Client.
func (c *client) ReplacePolicies(ctx context.Context, endpoint string, policies []hns.EndpointPolicy) error {
	k := c.begin(ctx, hns.OpACLUpdate, endpoint, func(_ *seen, to *Call) int { return to.keepPolicies(policies) })
	err := c.next.ReplacePolicies(ctx, endpoint, policies)
	k.end(err, nil)
	return err
}
