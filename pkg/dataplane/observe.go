package dataplane

import (
	"context"
	"maps"
	"slices"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// Observation is what the reconciler read from HNS, stamped with the state of
// the dataplane when the reading began. It is handed back in a Transaction.
type Observation struct {
	sequence  uint64
	sets      []ipsets.Observed
	endpoints []hns.Endpoint
	seen      map[string]bool // endpoints, listed or read by GUID
	gone      []string        // known endpoints that a read by GUID did not find
}

// Observe reads the network and the endpoints, outside the door: a slow listing
// delays no event. Nothing changes until the observation comes in with a
// transaction; what has moved since then is left alone. It returns nil when a look
// that is not at everything finds nothing new.
func (d *Dataplane) Observe(ctx context.Context, look Look) (*Observation, error) {
	d.mu.Lock()
	obs := &Observation{sequence: d.sequence, seen: map[string]bool{}}
	known := slices.Sorted(maps.Keys(d.endpoints))
	d.mu.Unlock()

	n, err := d.cfg.Client.Network(ctx)
	if err != nil {
		return nil, err
	}
	obs.sets = observedSets(n.Sets)
	if obs.endpoints, err = d.cfg.Client.ListEndpoints(ctx); err != nil {
		return nil, err
	}
	for _, e := range obs.endpoints {
		obs.seen[e.ID] = true
	}
	empty := len(obs.endpoints) == 0
	for _, id := range known {
		if obs.seen[id] {
			continue
		}
		// One that cannot be read is neither seen nor gone; it is read again
		// inside the door. So is what an empty listing lacks: HNS may just start.
		switch e, err := d.cfg.Client.GetEndpoint(ctx, id); {
		case hns.EndpointGone(err):
			obs.gone = append(obs.gone, id)
		case err == nil && !empty:
			obs.endpoints, obs.seen[id] = append(obs.endpoints, e), true
		}
	}
	return obs, nil
}

// foldObservationLocked takes over what was observed, object by object, but for
// what has moved since or has an update pending. Differences become ordinary
// plan entries. d.mu must be held.
func (d *Dataplane) foldObservationLocked(obs *Observation) {
	if obs.sequence < d.folded {
		return // a later one came in before it
	}
	d.folded = obs.sequence
	for _, id := range obs.gone {
		if ep := d.endpoints[id]; ep != nil && ep.moved <= obs.sequence {
			d.goneLocked(id)
		}
	}
	for _, e := range obs.endpoints {
		ep := d.endpoints[e.ID]
		if ep == nil && d.moved[e.ID] > obs.sequence { // gone since
			continue
		}
		if ep != nil && (ep.moved > obs.sequence || ep.queued > 0 || !ep.known()) {
			continue
		}
		d.markLocked(d.readLocked(e), policy.Key{})
	}
	d.missingLocked(obs.seen, obs.sequence)
	sets := slices.DeleteFunc(slices.Clone(obs.sets), func(s ipsets.Observed) bool { return d.moved[s.ID] > obs.sequence })
	listed := make(map[string]bool, len(obs.sets))
	for _, s := range obs.sets {
		listed[s.ID] = true
	}
	skip := func(n ipsets.Name) bool {
		id := d.idLocked(n)
		return d.moved[id] > obs.sequence || d.pausedLocked(n) && listed[id] == d.cache.Present(n)
	}
	drifted := d.observeSetsLocked(sets, skip)
	if !d.fresh { // else nothing was known before
		d.foundSetsLocked(drifted)
	}
	maps.DeleteFunc(d.moved, func(_ string, seq uint64) bool { return seq <= obs.sequence })
}
