package dataplane

import (
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
)

// read asks for what is not known: the sets, then which endpoints there are, then single
// endpoints. Local lost pods that turn out to have no endpoint end.
func (r *run) read() {
	r.progress.Note("reading", "", "", "")
	list := r.endpoints.TakeListDue()
	// Sets go first, so that the rules that are read then find those they name.
	if (r.fresh || r.cache.InDoubt()) && !r.sets.At.After(r.started) {
		r.readUnknownSets()
	}
	if list {
		res := r.ask(hns.Request{Op: hns.OpEndpointIDs})
		r.looks.enumerated = r.clock
		r.endpoints.TakeList(res.IDs, res.Err)
	}
	r.readEndpoints()
	if starting := r.endpoints.Starting(); list && !r.yielded && len(starting) > 0 {
		// Endpoints that nothing uses yet are in a list of their own. It says nothing of those
		// that it lacks, and its error nothing at all: their pods are looked for again.
		res := r.ask(hns.Request{Op: hns.OpEndpointNew})
		r.endpoints.TakeNewList(res.IDs, res.Err, starting)
		r.readEndpoints()
	}
	if list {
		r.endpoints.LookAgain()
	}
	r.desired.EndLost(r.endpoints.HasAddr)
	r.renderDirty()
}

// readEndpoints reads the endpoints that are due to be read by their GUIDs.
func (r *run) readEndpoints() {
	due := r.endpoints.TakeSingles()
	for i, id := range due {
		r.progress.Note("reading", "endpoint", "", id)
		if open := r.readEndpoint(id); open && !r.cfg.DryRun {
			r.isolate(id) // its next try is some time off
		}
		if r.yields(len(due) - i - 1) {
			r.endpoints.ReadOn(due[i+1])
			break
		}
	}
}

// readEndpoint reads one endpoint by its GUID. It reports whether one that is open cannot be
// read.
func (r *run) readEndpoint(id string) (open bool) {
	res := r.ask(hns.Request{Op: hns.OpEndpointGet, Endpoint: id})
	return r.endpoints.TakeRead(id, res.Endpoint, res.Err)
}

// readUnknownSets reads the sets. A failure counts as one of the writing of sets.
func (r *run) readUnknownSets() {
	if r.readSets(false) != nil {
		r.sets.Failed(r.started, r.clock)
	}
}

// readSets reads the sets and takes them over. HNS may show sets that were not known when the
// rules that name them were read: those are held now, and orphans are defined. What a look finds
// is drift, unless nothing was known before; otherwise our own view was in doubt.
func (r *run) readSets(look bool) error {
	res := r.ask(hns.Request{Op: hns.OpNetworkGet})
	if res.Err != nil {
		if !look && r.cache.HasUnknown() {
			r.readAgain.Failed(r.started, r.clock)
		}
		return res.Err
	}
	r.looks.sets = r.clock
	sets := observedSets(res.Network.Sets)
	var skip func(ipsets.Name) bool
	if look {
		skip = r.paused(sets)
	}
	drifted := r.cache.Observe(sets, skip)
	for _, s := range r.cache.TakeSpellings() {
		r.endpoints.Spellings.OfSet(s)
	}
	r.endpoints.SetsSeen()
	if look && !r.fresh {
		r.endpoints.FoundSets(drifted)
	}
	r.fresh = false
	r.renderDirty()
	return nil
}

// paused reports whether a look ignores the members of a set: the agent wrote it recently, and
// another program keeps changing it. A set that appeared or vanished is never ignored, because HNS
// rejects a rule that names a missing set, and an Add of an existing one.
func (n *nodeState) paused(sets []ipsets.Observed) func(ipsets.Name) bool {
	listed := make(map[string]bool, len(sets))
	for _, s := range sets {
		listed[s.ID] = true
	}
	return func(name ipsets.Name) bool {
		return n.endpoints.PausedSet(name) && listed[n.cache.ID(name)] == n.cache.Present(name)
	}
}
