package dataplane

import (
	"github.com/winnpm/winnpm/pkg/drift"
	"github.com/winnpm/winnpm/pkg/ipsets"
)

// foundSets takes what an observation shows of sets. A set that nothing
// needs is only removed some time, so whoever changes it or is faster has done
// us no harm; one that he makes has to be removed.
func (d *core) foundSets(drifted []ipsets.Drift) {
	for _, s := range drifted {
		if (s.Needed || s.Appeared) && d.cache.Outstanding(s.Name) {
			d.drift.FoundSet(s, d.now)
		}
	}
}

// settleDrift ends a run: what is as it should be again counts as repaired. It costs
// the objects that had trouble of late.
func (d *core) settleDrift() {
	for _, s := range d.drift.Objects() {
		ep := d.endpoints.Endpoint(s.Endpoint())
		if !d.outstanding(s) {
			d.drift.Right(s, d.endpoints.Pod(ep))
		}
		if s.Kind() == drift.ACL && ep == nil {
			d.drift.Gone(s)
		}
	}
	d.drift.Forget(d.now)
}

// outstanding reports whether there is something to write.
func (d *core) outstanding(s drift.Subject) bool {
	if set, is := s.Set(); is {
		return d.cache.Outstanding(set)
	}
	ep := d.endpoints.Endpoint(s.Endpoint())
	return ep != nil && ep.Outstanding()
}

// paused reports whether a look ignores the members of a set: the agent wrote it recently, and
// another program keeps changing it. A set that appeared or vanished is never ignored, because HNS
// rejects a rule that names a missing set, and an Add of an existing one.
func (d *core) paused(sets []ipsets.Observed) func(ipsets.Name) bool {
	listed := make(map[string]bool, len(sets))
	for _, s := range sets {
		listed[s.ID] = true
	}
	return func(n ipsets.Name) bool {
		return !d.drift.PausedUntil(drift.OfSet(n), d.now).IsZero() && listed[d.cache.ID(n)] == d.cache.Present(n)
	}
}
