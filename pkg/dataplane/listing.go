package dataplane

import (
	"errors"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/hns"
)

// read asks for what is not known: the sets, then which endpoints there are, then single
// endpoints.
func (r *run) read() {
	d := r.d
	d.progress.note("reading HNS", "", "", "")
	list := d.listDue(r.started)
	d.listing.wanted = false
	// Sets go first, so that the rules that are read then find those they name.
	sets := (d.fresh || d.cache.InDoubt()) && !d.sets.At.After(r.started)
	if sets {
		r.network()
	}
	if list {
		r.enumerate()
	}
	r.readSingles()
	if starting := d.starting(); list && r.yielded == 0 && len(starting) > 0 {
		r.enumerateNew(starting)
		r.readSingles()
	}
	if list {
		d.lookAgain()
	}
}

// readSingles reads the endpoints that are due to be read by their GUIDs.
func (r *run) readSingles() {
	d := r.d
	single := d.singles(r.started)
	d.readFrom = ""
	for i, id := range single {
		d.progress.note("reading", kindEndpoint, "", id)
		if r.get(id) && !d.cfg.DryRun {
			r.isolateHeld(id) // its next try is some time off
		}
		if r.yields(len(single) - i - 1) {
			d.readFrom = single[i+1]
			break
		}
	}
}

// enumerate takes over which endpoints there are. Those that are new are read
// next, one by one, and so are those that it lacks: they may only have dropped out
// of the filter.
func (r *run) enumerate() {
	d := r.d
	began := d.sequence
	res := r.ask(hns.Request{Op: hns.OpEndpointIDs})
	ids, err := res.IDs, res.Err
	d.looks.enumerated = d.clock
	if d.listing.err = err; err != nil {
		d.listing.retry.Failed(r.started, d.clock)
		if latest := d.clock.Add(listFailed); d.listing.retry.At.After(latest) {
			d.listing.retry.At = latest
		}
		return
	}
	d.enumerated(ids, began)
	d.sequence++
	d.listing.sequence = d.sequence
}

// get reads one endpoint by its GUID. It reports whether one that is open cannot be
// read.
func (r *run) get(id string) (open bool) {
	d := r.d
	res := r.ask(hns.Request{Op: hns.OpEndpointGet, Endpoint: id})
	e, err := res.Endpoint, res.Err
	ep, n := d.endpoints[id], d.unread[id]
	switch {
	case errors.Is(err, hns.ErrElsewhere):
		stranger := d.strangers[strings.ToLower(id)]
		if stranger.Failed(err, d.clock); stranger.Tries == 1 {
			stranger.At = d.clock.Add(openPause)
		}
		d.strangers[strings.ToLower(id)] = stranger
		delete(d.unread, id)
		d.gone(id)
	case hns.EndpointGone(err), ep != nil && ep.state.listed == listedLacked && hns.Answered(err):
		delete(d.unread, id)
		d.gone(id) // one that HNS does not enumerate either is gone, whatever the code
	case err != nil && ep != nil:
		ep.fail(err, d.clock)
		d.soon(ep)
		return d.open(ep)
	case err != nil && n != nil:
		n.err = err
		n.Failed(r.started, d.clock)
	case err == nil && (ep != nil || n != nil):
		delete(d.unread, id)
		delete(d.strangers, strings.ToLower(id))
		e.ID = id // HNS may show it in the other case
		ep = d.read(e)
		if n != nil {
			ep.came = n.came
		}
		ep.state.check = false
		d.render(ep)
	}
	return false
}

// fail records a failed try and when the next one is due.
func (ep *endpoint) fail(err error, now time.Time) {
	ep.tries++
	ep.lastErr = err
	ep.retryAt = now.Add(backoff.Spread(ep.id, ep.tries))
}

// network reads the sets and takes them over. A failure counts as one of the writing
// of sets.
func (r *run) network() {
	d := r.d
	if r.readSets() != nil {
		d.sets.Failed(r.started, d.clock)
	}
}

// readSets reads the sets and takes them over.
func (r *run) readSets() error {
	d := r.d
	res := r.ask(hns.Request{Op: hns.OpNetworkGet})
	err := res.Err
	if err != nil {
		if d.cache.HasUnknown() {
			d.setWork.read.Failed(r.started, d.clock)
		}
		return err
	}
	d.fresh = false
	d.looks.sets = d.clock
	_ = d.takeSets(observedSets(res.Network.Sets), nil) // our own view was in doubt: no drift
	d.renderDirty()
	return nil
}
