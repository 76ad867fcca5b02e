package backoff

import "time"

// If another program changes one of our objects once or twice, it is repaired without a pause. After more
// changes it will probably go on. Two programs that undo each other's changes without a pause load
// HNS and cut connections, so repairs back off.
const (
	dampedFrom = 3                // changes
	amnesty    = 30 * time.Minute // changes are forgotten that long after the last
)

// LongestDamped is the longest pause before the repair of an object that another program keeps
// changing.
const LongestDamped = 10 * time.Minute

// Damping counts the changes that another program made to an object.
type Damping struct {
	N     int // number of changes, up to Last
	Last  time.Time
	Until time.Time // end of the pause after the last change; in the past if the pause is over
}

// Flap records a change. From the third change on, the pause after it is 1, 2, 4 … s.
func (s *Damping) Flap(now time.Time, id string) {
	s.N = s.Count(now) + 1
	s.Last, s.Until = now, now
	if s.Damped(now) {
		s.Until = now.Add(pauseAfter(id, s.N))
	}
}

// Count returns the number of changes that are not forgotten.
func (s *Damping) Count(now time.Time) int {
	if now.Sub(s.Last) >= amnesty {
		return 0
	}
	return s.N
}

// Damped reports whether another program keeps changing the object.
func (s *Damping) Damped(now time.Time) bool { return s.Count(now) >= dampedFrom }

// pauseAfter returns the pause after a number of changes, which is at least dampedFrom.
func pauseAfter(id string, changes int) time.Duration {
	doublings := min(changes-dampedFrom, 10)
	return early(min(time.Second<<doublings, LongestDamped), id, changes)
}
