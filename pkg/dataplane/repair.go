package dataplane

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/drift"
	"github.com/winnpm/winnpm/pkg/hns"
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

// foundACLs takes that a known endpoint was read, with these rules of ours.
// An update that it needs from now on is a repair. An endpoint without a pod is
// never written, so nothing is found there.
func (d *core) foundACLs(ep *endpoint, ours []hns.ACL) {
	if !ep.pending() {
		ep.repair = true
	}
	if ep.updatable() {
		d.drift.FoundRules(ep.id, ep.actual, ours, d.now)
	}
}

// settleDrift ends a run: what is as it should be again counts as repaired. It costs
// the objects that had trouble of late.
func (d *core) settleDrift() {
	for _, s := range d.drift.Objects() {
		ep := d.endpoints[s.Endpoint()]
		if !d.outstanding(s) {
			d.drift.Right(s, d.pod(ep))
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
	ep := d.endpoints[s.Endpoint()]
	return ep != nil && ep.updatable() && (ep.pending() || !ep.known())
}

// paused reports whether the members that are observed of a set are to be
// left alone: it was written not long ago, and somebody else keeps undoing that.
// Whether the set is there at all is taken over all the same: HNS refuses what
// names one that is not, and to add one that is.
func (d *core) paused(n ipsets.Name) bool {
	return !d.drift.PausedUntil(drift.OfSet(n), d.now).IsZero()
}

// resume returns when an endpoint that joins the queue is due, zero for at
// once. Until then somebody else may do more, so it is read again before it is
// written.
func (d *core) resume(ep *endpoint) time.Time {
	if !ep.repair {
		return time.Time{}
	}
	until := d.drift.PausedUntil(drift.OfEndpoint(ep.id), d.now)
	if !until.IsZero() {
		ep.state.check = true
	}
	return until
}

// spelled keeps how HNS spells sets.
func (d *core) spelled() {
	for _, s := range d.cache.TakeSpellings() {
		d.spellings.OfSet(s)
	}
}

// pod returns the name of the pod that an endpoint belongs to, "" for
// none.
func (d *core) pod(ep *endpoint) string {
	if ep == nil {
		return ""
	}
	return d.podOf(ep.owner)
}

// podOf returns the name of the local pod with a UID, "" for none.
func (d *core) podOf(uid types.UID) string {
	if p := d.local[uid]; p != nil {
		return p.Key().String()
	}
	return ""
}
