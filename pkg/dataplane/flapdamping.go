package dataplane

import (
	"time"

	"github.com/winnpm/winnpm/pkg/ipsets"
)

// paused reports whether the members that are observed of a set are to be
// left alone: it was written not long ago, and somebody else keeps undoing that.
// Whether the set is there at all is taken over all the same: HNS refuses what
// names one that is not, and to add one that is.
func (d *core) paused(n ipsets.Name) bool {
	t := d.drift.troubles[subject{set: n}]
	return t != nil && t.Until.After(d.now)
}

// resume returns when an endpoint that joins the queue is due, zero for at
// once. Until then somebody else may do more, so it is read again before it is
// written.
func (d *core) resume(ep *endpoint) time.Time {
	t := d.drift.troubles[subject{endpoint: ep.id}]
	if !ep.repair || t == nil || !t.Until.After(d.now) {
		return time.Time{}
	}
	ep.state.check = true
	return t.Until
}

// flapping returns the objects that somebody else keeps changing.
func (d *core) flapping(now time.Time) []subject {
	var out []subject
	for s, t := range d.drift.troubles {
		if t.Damped(now) {
			out = append(out, s)
		}
	}
	return out
}
