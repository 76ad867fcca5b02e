package dataplane

import (
	"time"

	"github.com/winnpm/winnpm/pkg/ipsets"
)

// Somebody else who changes an object of ours once or twice gets it put right at
// once. From then on he will do it again, and two programs that undo each other
// without a pause load HNS and cut connections, so repair backs off.
const (
	dampedFrom = 3 // changes
	maxPause   = 10 * time.Minute
	amnesty    = 30 * time.Minute // changes are forgotten that long after the last
)

// flapDamping counts the times that somebody else was found to have changed an object.
type flapDamping struct {
	n     int
	last  time.Time
	until time.Time // end of the pause after the last one; in the past for none
}

// flap takes one more. The pause after it is 1, 2, 4 … s from the third on.
func (s *flapDamping) flap(now time.Time, id string) {
	s.n = s.count(now) + 1
	s.last, s.until = now, now
	if s.damped(now) {
		s.until = now.Add(pauseAfter(id, s.n))
	}
}

// count returns how many are not forgotten.
func (s *flapDamping) count(now time.Time) int {
	if now.Sub(s.last) >= amnesty {
		return 0
	}
	return s.n
}

// disputed reports whether somebody else keeps changing the object.
func (s *flapDamping) damped(now time.Time) bool { return s.count(now) >= dampedFrom }

// pauseAfter returns the pause after so many changes, at least dampedFrom.
func pauseAfter(id string, flapDamping int) time.Duration {
	doublings := min(flapDamping-dampedFrom, 10)
	return early(min(time.Second<<doublings, maxPause), id, flapDamping)
}

// paused reports whether the members that are observed of a set are to be
// left alone: it was written not long ago, and somebody else keeps undoing that.
// Whether the set is there at all is taken over all the same: HNS refuses what
// names one that is not, and to add one that is.
func (d *core) paused(n ipsets.Name) bool {
	t := d.drift.troubles[subject{set: n}]
	return t != nil && t.until.After(d.now)
}

// resume returns when an endpoint that joins the queue is due, zero for at
// once. Until then somebody else may do more, so it is read again before it is
// written.
func (d *core) resume(ep *endpoint) time.Time {
	t := d.drift.troubles[subject{endpoint: ep.id}]
	if !ep.repair || t == nil || !t.until.After(d.now) {
		return time.Time{}
	}
	ep.state.check = true
	return t.until
}

// flapping returns the objects that somebody else keeps changing.
func (d *core) flapping(now time.Time) []subject {
	var out []subject
	for s, t := range d.drift.troubles {
		if t.damped(now) {
			out = append(out, s)
		}
	}
	return out
}
