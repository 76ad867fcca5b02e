package dataplane

import (
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
)

// read reads the unknown parts of HNS: the sets, then the list of endpoints, then single
// endpoints. Then it ends the local lost pods that have no endpoint.
func (r *run) read() {
	r.progress.Note("reading", "", "", "")
	list := r.endpoints.TakeListDue()
	// Sets are read first, because rules that are read later refer to them.
	if r.cache.InDoubt() && !r.sets.At.After(r.started) {
		r.readUnknownSets()
	}
	if list {
		res := r.ask(hns.Request{Op: hns.OpEndpointIDs})
		r.looks.enumerated = r.clock
		r.endpoints.TakeList(res.IDs, res.Err)
	}
	r.readEndpoints()
	if list {
		if starting := r.endpoints.Starting(); !r.yielded && len(starting) > 0 {
			// HNS lists endpoints that no container uses yet separately. Endpoints that this list
			// lacks, and an error of it, mean nothing: the pods are looked for again.
			res := r.ask(hns.Request{Op: hns.OpEndpointNew})
			r.endpoints.TakeNewList(res.IDs, res.Err, starting)
			r.readEndpoints()
		}
		r.endpoints.LookAgain()
	}
	r.lostDue = r.desired.EndLost(r.endpoints.HasAddr)
	r.renderDirty()
}

// readEndpoints reads the endpoints that are due to be read by their GUIDs.
func (r *run) readEndpoints() {
	due := r.endpoints.Singles(r.started)
	for i, id := range due {
		r.progress.Note("reading", "endpoint", "", id)
		if open := r.readEndpoint(id); open && !r.cfg.DryRun {
			r.isolate(id) // it is read again only after a pause
		}
		if left := len(due) - i - 1; left > 0 && r.yields() {
			break
		}
	}
}

// readEndpoint reads one endpoint by its GUID. It reports whether the endpoint is open and could
// not be read.
func (r *run) readEndpoint(id string) (open bool) {
	res := r.ask(hns.Request{Op: hns.OpEndpointGet, Endpoint: id})
	return r.endpoints.TakeRead(id, res.Endpoint, res.Err)
}

// readUnknownSets reads the sets when their state in HNS is unknown. After a failure no set is
// written before the next try.
func (r *run) readUnknownSets() {
	if r.readSets(false) != nil {
		r.sets.Failed(r.started, r.clock)
	}
}

// readSets reads the sets and records them as the actual ones. If look is true and the
// sets were read before, each difference is drift. Sets that rules on endpoints name may be seen for the
// first time: they are held now, and orphaned sets are defined.
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
	first := !r.cache.Observed()
	drifted := r.cache.Observe(sets, skip)
	for _, s := range r.cache.TakeSpellings() {
		r.endpoints.Spellings.OfSet(s)
	}
	r.endpoints.SetsSeen()
	if look && !first {
		r.endpoints.FoundSets(drifted)
	}
	r.renderDirty()
	return nil
}

// paused returns a function that reports whether a look ignores the members of a set: the agent
// wrote it recently, and another program keeps changing it. A set that appeared or vanished is
// never ignored, because HNS rejects a rule that names a missing set, and an Add of an existing one.
func (n *nodeState) paused(sets []ipsets.Observed) func(ipsets.Name) bool {
	listed := make(map[string]bool, len(sets))
	for _, s := range sets {
		listed[s.ID] = true
	}
	return func(name ipsets.Name) bool {
		return n.endpoints.PausedSet(name) && listed[n.cache.ID(name)] == n.cache.Present(name)
	}
}

// observedSets returns the sets of a network that are ours. HNS may show ids in upper case; the
// result has them in lower case, as rules do. HNS may show an address with its mask.
func observedSets(sets []hns.SetPolicy) []ipsets.Observed {
	var out []ipsets.Observed
	for _, s := range sets {
		o := ipsets.Observed{ID: strings.ToLower(s.ID), Name: s.Name, Nested: s.Type == hns.NestedIPSet, Values: make([]string, len(s.Values))}
		if !strings.HasPrefix(o.ID, hns.SetIDPrefix) {
			continue
		}
		for i, v := range s.Values {
			if o.Nested {
				o.Values[i] = strings.ToLower(strings.TrimSpace(v))
			} else if value, ok := hns.CanonicalValue(v); ok {
				o.Values[i] = value
			} else {
				o.Values[i] = v
			}
		}
		out = append(out, o)
	}
	return out
}
