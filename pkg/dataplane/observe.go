package dataplane

import (
	"context"
	"time"
)

// Observe reads what look says, beside transactions: a slow read delays no event.
// Nothing changes until the observation comes in with a transaction; what has
// moved since then is left alone. It returns nil when a look that is not at
// everything finds nothing new.
//
// The error is that of Client.Network or Client.EndpointIDs, or the cause of ctx. An
// endpoint that cannot be read is no error: the transaction reads it again.
func (d *Dataplane) Observe(ctx context.Context, look Look) (*Observation, error) {
	var obs *Observation
	var ids []string
	d.with(func(c *core) { obs, ids = c.beginLook(look) })
	if look.Sets {
		n, err := d.client.Network(ctx)
		if err == nil {
			obs.sets = observedSets(n.Sets)
			obs.digest = digestSets(obs.sets)
		}
		d.with(func(c *core) { c.sawSets(obs, err) })
		if err != nil {
			return nil, err
		}
	}
	if look.Enumerate {
		listed, err := d.client.EndpointIDs(ctx)
		d.with(func(c *core) { c.sawIDs(obs, listed, err) })
		if err != nil {
			return nil, err
		}
	}
	for _, id := range ids {
		e, err := d.client.GetEndpoint(ctx, id)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		d.with(func(c *core) { c.endpoints.SawEndpoint(&obs.seen, id, e, err) })
	}
	if obs.empty() {
		return nil, nil //nolint:nilnil // there is nothing to say, which is no error
	}
	return obs, nil
}

// NextLook returns what is to be observed next, and when: in the past for at once.
// It is asked again after each observation and each transaction. Objects take
// turns, the one that was read longest ago first, evenly over the period.
func (d *Dataplane) NextLook() (next Look, at time.Time) {
	d.with(func(c *core) { next, at = c.nextLook() })
	return next, at
}
