package dataplane

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
)

// listing says when endpoints are enumerated inside the door. Guarded by
// Dataplane.mu.
type listing struct {
	wanted bool  // by this transaction: a new UID on an address
	retry  retry // while a pod looks for its endpoint, or after a failure
	err    error // of the last one
	// unsettled: the last enumeration was empty while local pods run. Until it is
	// over no set is deleted.
	unsettled bool
	sequence  uint64 // of writes when the last one began
	// gone is when a write last found its endpoint gone, and endpoints were listed at
	// once.
	gone time.Time
}

// Each pod without an endpoint of its own is looked for once a second in its first
// minute. After that it is the look every lookEnumerate that finds it; where nobody
// looks, every 30 s.
const (
	listAgain  = time.Second
	listsFor   = time.Minute
	listFailed = 5 * time.Second // the longest pause after a failure
)

// newcomer is an endpoint that was enumerated and never read. Enumerations bound
// their number, and reads end it: one that is elsewhere is a stranger from then on.
type newcomer struct {
	retry
	err error // of the last read, nil before the first
}

// unreadTries is how often the read of a newcomer fails until nothing waits for it
// any more: half a minute.
const unreadTries = 5

// unreadLocked reports whether an endpoint was enumerated a moment ago and not read
// yet. Its rules may need sets that nothing else needs, and it may be that of a pod
// that waits. One that cannot be read at all keeps nothing up: HNS itself refuses to
// remove what its rules name. d.mu must be held.
func (d *Dataplane) unreadLocked() bool {
	for _, n := range d.newcomers {
		if n.tries <= unreadTries {
			return true
		}
	}
	return false
}

// read brings the view of HNS up to date before planning: endpoints are
// enumerated when a pod needs one and those that are new are read, single ones
// are read when their state is not known or their pod is gone, and the network
// when the outcome of a set write is not.
func (r *run) read(ctx context.Context) {
	d := r.d
	d.progress.note("reading HNS", "", "", "")
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
		r.enumerate(ctx)
	}
	d.mu.Lock()
	single := d.singlesLocked(r.started)
	d.unread = ""
	d.mu.Unlock()
	for i, id := range single {
		d.progress.note("reading", kindEndpoint, "", id)
		if r.get(ctx, id) {
			r.isolateHeld(ctx, id) // its next try is some time off
		}
		if r.yields(len(single) - i - 1) {
			d.mu.Lock()
			d.unread = single[i+1]
			d.mu.Unlock()
			break
		}
	}
	if list {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.lookAgainLocked()
	}
}

// singlesLocked returns the endpoints that are due to be read by their GUIDs:
// first those that nobody has read, as pods may wait for them. Among the others
// reading goes on where it was left: one that fails slowly is due again before the
// others were read. d.mu must be held.
func (d *Dataplane) singlesLocked(now time.Time) []string {
	var fresh, known []string
	for id, n := range d.newcomers {
		if !n.at.After(now) {
			fresh = append(fresh, id)
		}
	}
	for id, ep := range d.endpoints {
		if (!ep.known() || d.check[id]) && !ep.retryAt.After(now) {
			known = append(known, id)
		}
	}
	rotate := func(ids []string) []string {
		slices.Sort(ids)
		at, _ := slices.BinarySearch(ids, d.unread)
		return slices.Concat(ids[at:], ids[:at])
	}
	// One that fails may be first for good, so those that never did go before it.
	fresh = rotate(fresh)
	slices.SortStableFunc(fresh, func(a, b string) int { return min(d.newcomers[a].tries, 1) - min(d.newcomers[b].tries, 1) })
	return slices.Concat(fresh, rotate(known))
}

// listDueLocked reports whether the endpoints are to be enumerated now. d.mu must
// be held.
func (d *Dataplane) listDueLocked(now time.Time) bool {
	at := d.listing.retry.at
	return d.listing.wanted || !at.IsZero() && !at.After(now)
}

// enumerate takes over which endpoints there are. Those that are new are read
// next, one by one, and so are those that it lacks: they may only have dropped out
// of the filter.
func (r *run) enumerate(ctx context.Context) {
	d := r.d
	d.mu.Lock()
	began := d.sequence
	d.mu.Unlock()
	var ids []string
	err := r.call(hns.OpEndpointIDs, func() (err error) {
		ids, err = d.cfg.Client.EndpointIDs(ctx)
		return err
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.looks.enumerated = d.cfg.Now()
	if d.listing.err = err; err != nil {
		d.listing.retry.failed(r.started, d.cfg.Now())
		if latest := d.cfg.Now().Add(listFailed); d.listing.retry.at.After(latest) {
			d.listing.retry.at = latest
		}
		return
	}
	d.enumeratedLocked(ids, began)
	d.sequence++
	d.listing.sequence = d.sequence
}

// enumeratedLocked takes over an enumeration that began at a write sequence: new
// endpoints are newcomers, those that it lacks are checked. HNS may spell a GUID
// in either case. d.mu must be held.
func (d *Dataplane) enumeratedLocked(ids []string, sequence uint64) {
	seen := make(map[string]bool, len(ids))
	known := make(map[string]string, len(d.endpoints))
	for id := range d.endpoints {
		known[strings.ToLower(id)] = id
	}
	for id := range d.newcomers {
		known[strings.ToLower(id)] = id
	}
	strangers := map[string]again{}
	ours := 0
	for _, id := range ids {
		key := strings.ToLower(id)
		if stranger, is := d.strangers[key]; is {
			if strangers[key] = stranger; !d.strangerDueLocked(stranger) {
				continue
			}
		}
		ours++
		if is, ok := known[key]; ok {
			seen[is] = true
			continue
		}
		if d.moved[id] > sequence { // gone since
			continue
		}
		d.newcomers[id], seen[id], known[key] = &newcomer{}, true, id
	}
	d.strangers = strangers
	for id := range d.newcomers {
		if !seen[id] {
			delete(d.newcomers, id)
		}
	}
	if sequence >= d.listing.sequence { // no later one was first
		d.listing.sequence = sequence
		d.listing.unsettled = ours == 0 && len(d.local) > 0
	}
	for id, ep := range d.endpoints {
		ep.unseen = !seen[id] && ep.moved <= sequence && !d.listing.unsettled
		switch {
		case ep.moved > sequence:
		case seen[id] && ep.absent, !seen[id] && !d.listing.unsettled:
			// It may be gone, or was made anew under its GUID.
			d.check[id], ep.absent = true, false
		case !seen[id]:
			ep.absent = true
		}
	}
}

// strangerDueLocked reports whether an endpoint that was elsewhere is read once more:
// a local pod has none, and one odd read is not to keep its own from it. d.mu must be
// held.
func (d *Dataplane) strangerDueLocked(s again) bool {
	return !s.at.After(d.cfg.Now()) && len(d.waitingLocked()) > 0
}

// unreadErrsLocked returns why endpoints that are enumerated could not be read, of
// those that never were. d.mu must be held.
func (d *Dataplane) unreadErrsLocked() map[string]error {
	out := map[string]error{}
	for id, n := range d.newcomers {
		if n.err != nil {
			out[id] = n.err
		}
	}
	return out
}

// lookAgainLocked says when endpoints are enumerated next for the pods that have
// none of their own, zero for not. What newcomers turn out to be is seen then.
// d.mu must be held.
func (d *Dataplane) lookAgainLocked() {
	now := d.cfg.Now()
	if d.listing.err != nil {
		return // it is tried again
	}
	if d.listing.unsettled {
		d.listing.retry.failed(d.now, now)
		return
	}
	var next due
	for _, p := range d.local {
		eps := d.byAddr[p.Addr]
		own := slices.ContainsFunc(eps, func(ep *endpoint) bool {
			return ep.bornFor == p.UID || p.inDoubt() && ep.bornFor == ep.owner // they came at once
		})
		switch {
		case own:
		case len(eps) == 0 && now.Sub(p.placed) < listsFor:
			next.at(now.Add(listAgain))
		case len(eps) == 0:
			next.at(now.Add(maxBackoff))
		case p.relists < maxRelists:
			p.relists++
			next.at(now.Add(backoff(p.relists)))
		}
	}
	d.listing.retry = retry{at: next.first}
}

// get reads one endpoint by its GUID. It reports whether one that is open cannot be
// read.
func (r *run) get(ctx context.Context, id string) (open bool) {
	d := r.d
	e, err := counted{r}.GetEndpoint(ctx, id)
	d.mu.Lock()
	defer d.mu.Unlock()
	ep, n := d.endpoints[id], d.newcomers[id]
	switch {
	case errors.Is(err, hns.ErrElsewhere):
		stranger := d.strangers[strings.ToLower(id)]
		if stranger.failed(err, d.cfg.Now()); stranger.tries == 1 {
			stranger.at = d.cfg.Now().Add(openPause)
		}
		d.strangers[strings.ToLower(id)] = stranger
		delete(d.newcomers, id)
		d.goneLocked(id)
	case hns.EndpointGone(err), ep != nil && ep.unseen && hns.Answered(err):
		delete(d.newcomers, id)
		d.goneLocked(id) // one that HNS does not enumerate either is gone, whatever the code
	case err != nil && ep != nil:
		ep.fail(err, d.cfg.Now())
		d.soonLocked(ep)
		return d.openLocked(ep)
	case err != nil && n != nil:
		n.err = err
		n.failed(r.started, d.cfg.Now())
	case err == nil && (ep != nil || n != nil):
		delete(d.check, id)
		delete(d.newcomers, id)
		delete(d.strangers, strings.ToLower(id))
		e.ID = id // HNS may show it in the other case
		d.renderLocked(d.readLocked(e))
	}
	return false
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
	err := r.timed(op, do)
	if err != nil && !hns.EndpointGone(err) && !errors.Is(err, hns.ErrElsewhere) {
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
	d.looks.sets = d.cfg.Now()
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
