package dataplane

import (
	"context"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
)

// listing says when endpoints are listed inside the door. Guarded by
// Dataplane.mu.
type listing struct {
	wanted bool // by this transaction: a new UID on an address
	retry  retry
	err    error // of the last listing
	// unsettled: the last listing was empty while local pods run. Until it is
	// over no set is deleted.
	unsettled bool
	sequence  uint64 // of writes when the last listing began
}

// read brings the view of HNS up to date before planning: endpoints are listed
// when a pod needs one, single ones are read when their state is not known or
// their pod is gone, and the network when the outcome of a set write is not.
func (r *run) read(ctx context.Context) {
	d := r.d
	d.mu.Lock()
	list := d.listDueLocked(r.started)
	d.listing.wanted = false
	// Sets go first, so that the rules that are read then find those they name.
	sets := (d.fresh || d.cache.InDoubt()) && !d.sets.at.After(r.started)
	d.mu.Unlock()
	if sets {
		r.network(ctx)
	}
	if list {
		r.list(ctx)
	}

	d.mu.Lock()
	var single []string
	for id, ep := range d.endpoints {
		if (!ep.known() || d.check[id]) && !ep.retryAt.After(r.started) {
			single = append(single, id)
		}
	}
	// Reading goes on where it was left: one that fails slowly is due again before
	// the others were read.
	slices.Sort(single)
	at, _ := slices.BinarySearch(single, d.unread)
	single, d.unread = slices.Concat(single[at:], single[:at]), ""
	d.mu.Unlock()
	for i, id := range single {
		if r.get(ctx, id); r.yields(len(single) - i - 1) {
			d.mu.Lock()
			d.unread = single[i+1]
			d.mu.Unlock()
			return
		}
	}
}

// listDueLocked reports whether the endpoints are to be listed now. d.mu must be
// held.
func (d *Dataplane) listDueLocked(now time.Time) bool {
	if d.listing.retry.at.IsZero() {
		return d.listing.wanted || len(d.waitingLocked()) > 0
	}
	return d.listing.wanted || !d.listing.retry.at.After(now)
}

// list reads the endpoints and takes all of them over. One that the listing
// lacks is read by its GUID, as it may only have dropped out of the filter.
func (r *run) list(ctx context.Context) {
	d := r.d
	var eps []hns.Endpoint
	err := r.call(hns.OpEndpointList, func() (err error) {
		eps, err = d.cfg.Client.ListEndpoints(ctx)
		return err
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.listing.err = err; err != nil {
		d.listing.retry.failed(r.started, d.cfg.Now())
		return
	}
	seen := make(map[string]bool, len(eps))
	for _, e := range eps {
		seen[e.ID] = true
		d.renderLocked(d.readLocked(e))
	}
	d.sequence++
	d.missingLocked(seen, d.sequence)
	if d.inheritingLocked() || len(d.waitingLocked()) > 0 || d.listing.unsettled {
		d.listing.retry.failed(r.started, d.cfg.Now())
	} else {
		d.listing.retry = retry{}
	}
}

// missingLocked has the endpoints that a successful listing lacks read one by
// one, but for those that moved after sequence: only a read by the GUID tells
// that one is gone. d.mu must be held.
func (d *Dataplane) missingLocked(seen map[string]bool, sequence uint64) {
	if sequence >= d.listing.sequence { // no later listing was first
		d.listing.sequence = sequence
		d.listing.unsettled = len(seen) == 0 && len(d.local) > 0
	}
	for id, ep := range d.endpoints {
		if !seen[id] && ep.moved <= sequence && !d.listing.unsettled {
			d.check[id] = true
		}
	}
}

// get reads one endpoint by its GUID.
func (r *run) get(ctx context.Context, id string) {
	d := r.d
	e, err := counted{r}.GetEndpoint(ctx, id)
	d.mu.Lock()
	defer d.mu.Unlock()
	switch ep := d.endpoints[id]; {
	case hns.EndpointGone(err):
		d.goneLocked(id)
	case ep == nil:
	case err != nil:
		ep.fail(err, d.cfg.Now())
	default:
		delete(d.check, id)
		d.renderLocked(d.readLocked(e))
	}
}

// fail records a failed try and when the next one is due.
func (ep *endpoint) fail(err error, now time.Time) {
	ep.tries++
	ep.lastErr = err
	ep.retryAt = now.Add(spread(ep.id, ep.tries))
}

// quiet is call for requests whose object may be gone, which is no error.
func (r *run) quiet(op string, do func() error) error {
	r.calls[op]++
	err := r.timed(do)
	if err != nil && !hns.EndpointGone(err) {
		r.errs = append(r.errs, err)
	}
	return err
}

// network reads the sets and takes them over. A failure counts as one of the writing
// of sets.
func (r *run) network(ctx context.Context) {
	d := r.d
	if r.readSets(ctx) != nil {
		d.mu.Lock()
		d.sets.failed(r.started, d.cfg.Now())
		d.mu.Unlock()
	}
}

// readSets reads the sets and takes them over.
func (r *run) readSets(ctx context.Context) error {
	d := r.d
	var n hns.Network
	err := r.call(hns.OpNetworkGet, func() (err error) {
		n, err = d.cfg.Client.Network(ctx)
		return err
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		if d.cache.HasUnknown() {
			d.setWork.read.failed(r.started, d.cfg.Now())
		}
		return err
	}
	d.fresh = false
	_ = d.observeSetsLocked(observedSets(n.Sets), nil) // our own view was in doubt: no drift
	d.renderDirtyLocked()
	return nil
}

// observeSetsLocked takes over a listing of our sets. It may show sets that
// were not known when the rules that name them were read: those are held now, and
// leftovers are defined.
// It returns those that somebody else changed. d.mu must be held.
func (d *Dataplane) observeSetsLocked(sets []ipsets.Observed, skip func(ipsets.Name) bool) (drifted []ipsets.Drift) {
	drifted = d.cache.Observe(sets, skip)
	d.spelledLocked()
	adopted := d.cache.TakeAdopted()
	for _, n := range adopted {
		d.renderHoldersLocked(n)
	}
	if len(adopted) > 0 {
		for _, ps := range d.policies {
			ps.group = nil // it may name the id that was
		}
	}
	for _, ep := range d.endpoints {
		d.holdLocked(ep, ipsets.RefApplied, d.namesOfLocked(ep.applied))
		d.pinLocked(ep)
	}
	return drifted
}
