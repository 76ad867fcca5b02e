package endpoints

import (
	"time"

	"github.com/winnpm/winnpm/pkg/drift"
	"github.com/winnpm/winnpm/pkg/hns"
)

// foundACLs takes that a known endpoint was read, with these rules of ours.
// An update that it needs from now on is a repair. An endpoint without a pod is
// never written, so nothing is found there.
func (d *State) foundACLs(ep *Endpoint, ours []hns.ACL) {
	if !ep.Pending() {
		ep.repair = true
	}
	if ep.updatable() {
		d.drift.FoundRules(ep.ID, ep.actual, ours, d.now)
	}
}

// resume returns when an endpoint that joins the queue is due, zero for at
// once. Until then somebody else may do more, so it is read again before it is
// written.
func (d *State) resume(ep *Endpoint) time.Time {
	if !ep.repair {
		return time.Time{}
	}
	until := d.drift.PausedUntil(drift.OfEndpoint(ep.ID), d.now)
	if !until.IsZero() {
		ep.state.check = true
	}
	return until
}
