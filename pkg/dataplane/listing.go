package dataplane

import (
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
	single := d.endpoints.TakeSingles()
	for i, id := range single {
		d.progress.Note("reading", progress.Endpoint, "", id)
		if r.get(id) && !d.cfg.DryRun {
			r.isolateHeld(id) // its next try is some time off
		}
		if r.yields(len(single) - i - 1) {
			d.endpoints.ReadOn(single[i+1])
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

// takeSets takes over a listing of our sets. It may show sets that
// were not known when the rules that name them were read: those are held now, and
// orphans are defined.
// It returns those that somebody else changed.
func (d *core) takeSets(sets []ipsets.Observed, skip func(ipsets.Name) bool) (drifted []ipsets.Drift) {
	drifted = d.cache.Observe(sets, skip)
	d.spelled()
	d.endpoints.SetsSeen()
	return drifted
}
