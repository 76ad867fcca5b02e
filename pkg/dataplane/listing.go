package dataplane

import (
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/progress"
)

// read asks for what is not known: the sets, then which endpoints there are, then single
// endpoints. Local lost pods that turn out to have no endpoint end.
func (r *run) read() {
	d := r.d
	d.progress.Note("reading HNS", "", "", "")
	list := d.endpoints.TakeListDue()
	// Sets go first, so that the rules that are read then find those they name.
	sets := (d.fresh || d.cache.InDoubt()) && !d.sets.At.After(r.started)
	if sets {
		r.network()
	}
	if list {
		r.enumerate()
	}
	r.readSingles()
	if starting := d.endpoints.Starting(); list && r.yielded == 0 && len(starting) > 0 {
		r.enumerateNew(starting)
		r.readSingles()
	}
	if list {
		d.endpoints.LookAgain()
	}
	d.endLost()
}

// readSingles reads the endpoints that are due to be read by their GUIDs.
func (r *run) readSingles() {
	d := r.d
	single := d.endpoints.Singles(r.started)
	for i, id := range single {
		d.progress.Note("reading", progress.Endpoint, "", id)
		if r.get(id) && !d.cfg.DryRun {
			r.isolateHeld(id) // its next try is some time off
		}
		if r.yields(len(single) - i - 1) {
			break
		}
	}
}

// enumerate takes over which endpoints there are. Those that are new are read
// next, one by one, and so are those that it lacks: they may only have dropped out
// of the filter.
func (r *run) enumerate() {
	d := r.d
	res := r.ask(hns.Request{Op: hns.OpEndpointIDs})
	d.looks.enumerated = d.clock
	d.endpoints.TakeList(res.IDs, res.Err)
}

// enumerateNew finds the endpoints that nothing uses yet. Those that nobody knows are read
// next, one by one. It says nothing of the endpoints that it lacks, and an error of it
// nothing at all: pods whose endpoint is not found are looked for again.
func (r *run) enumerateNew(starting []*desired.PodState) {
	res := r.ask(hns.Request{Op: hns.OpEndpointNew})
	r.d.endpoints.TakeNewList(res.IDs, res.Err, starting)
}

// get reads one endpoint by its GUID. It reports whether one that is open cannot be
// read.
func (r *run) get(id string) (open bool) {
	d := r.d
	res := r.ask(hns.Request{Op: hns.OpEndpointGet, Endpoint: id})
	return d.endpoints.TakeRead(id, res.Endpoint, res.Err)
}

// network reads the sets and takes them over. A failure counts as one of the writing
// of sets.
func (r *run) network() {
	d := r.d
	if r.readSets(false) != nil {
		d.sets.Failed(r.started, d.clock)
	}
}

// readSets reads the sets and takes them over. HNS may show sets that were not known when the
// rules that name them were read: those are held now, and orphans are defined. What a look finds
// is drift, unless nothing was known before; otherwise our own view was in doubt.
func (r *run) readSets(look bool) error {
	d := r.d
	res := r.ask(hns.Request{Op: hns.OpNetworkGet})
	if res.Err != nil {
		if !look && d.cache.HasUnknown() {
			d.setWork.read.Failed(r.started, d.clock)
		}
		return res.Err
	}
	d.looks.sets = d.clock
	sets := observedSets(res.Network.Sets)
	var skip func(ipsets.Name) bool
	if look {
		skip = d.paused(sets)
	}
	drifted := d.cache.Observe(sets, skip)
	for _, s := range d.cache.TakeSpellings() {
		d.spellings.OfSet(s)
	}
	d.endpoints.SetsSeen()
	if look && !d.fresh {
		d.foundSets(drifted)
	}
	d.fresh = false
	d.renderDirty()
	return nil
}
