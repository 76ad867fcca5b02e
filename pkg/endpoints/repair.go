package endpoints

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

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
		d.drift.FoundRules(ep.ID, ep.Actual, ours, d.now)
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

// Pod returns the name of the pod that an endpoint belongs to, "" for
// none.
func (d *State) Pod(ep *Endpoint) string {
	if ep == nil {
		return ""
	}
	return d.podOf(ep.owner)
}

// podOf returns the name of the local pod with a UID, "" for none.
func (d *State) podOf(uid types.UID) string {
	if p := d.desired.Local(uid); p != nil {
		return p.Key().String()
	}
	return ""
}

// Outstanding reports whether there is something to write to the endpoint.
func (ep *Endpoint) Outstanding() bool { return ep.updatable() && (ep.Pending() || !ep.Known()) }
