package backoff

import "time"

// Somebody else who changes an object of ours once or twice gets it put right at
// once. From then on he will do it again, and two programs that undo each other
// without a pause load HNS and cut connections, so repair backs off.
const (
	dampedFrom = 3                // changes
	amnesty    = 30 * time.Minute // changes are forgotten that long after the last
)

// LongestDamped is the longest pause of a repair that somebody else keeps undoing.
const LongestDamped = 10 * time.Minute

// Damping counts the times that somebody else was found to have changed an object.
type Damping struct {
	N     int // of them, up to the last one
	Last  time.Time
	Until time.Time // end of the pause after the last one; in the past for none
}

// Flap takes one more. The pause after it is 1, 2, 4 … s from the third on.
func (s *Damping) Flap(now time.Time, id string) {
	s.N = s.Count(now) + 1
	s.Last, s.Until = now, now
	if s.Damped(now) {
		s.Until = now.Add(pauseAfter(id, s.N))
	}
}

// Count returns how many are not forgotten.
func (s *Damping) Count(now time.Time) int {
	if now.Sub(s.Last) >= amnesty {
		return 0
	}
	return s.N
}

// Damped reports whether somebody else keeps changing the object.
func (s *Damping) Damped(now time.Time) bool { return s.Count(now) >= dampedFrom }

// pauseAfter returns the pause after so many changes, at least dampedFrom.
func pauseAfter(id string, changes int) time.Duration {
	doublings := min(changes-dampedFrom, 10)
	return early(min(time.Second<<doublings, LongestDamped), id, changes)
}
