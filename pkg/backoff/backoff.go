// Package backoff decides when something is tried again: after a failure, after a rejection, and
// after another program has undone it. It has no clock: callers pass the time.
package backoff

import (
	"fmt"
	"hash/fnv"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
)

// Retry is the next try after failures: 1, 2, 4 … 30 s after the last one.
type Retry struct {
	Tries int
	At    time.Time // zero: nothing to retry
}

// Longest is the longest pause after a failure.
const Longest = 30 * time.Second

// Pause returns the pause after a number of failed tries.
func Pause(tries int) time.Duration {
	if tries > 5 {
		return Longest
	}
	return min(time.Second<<max(tries-1, 0), Longest)
}

// Spread is Pause for one of many objects: from the third try on it is up to a fifth shorter.
func Spread(id string, tries int) time.Duration {
	pause := Pause(tries)
	if tries < 3 {
		return pause
	}
	return early(pause, id, tries)
}

// early shortens a pause by up to a fifth, depending on the object and the try, so that objects
// that failed together are not always retried together.
func early(pause time.Duration, id string, tries int) time.Duration {
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, tries, id) // a hash takes everything
	return pause - pause/5*time.Duration(h.Sum32()%1000)/1000
}

// Failed schedules the next try after a failure in a run that started at began. It counts only one
// failure per run, and no failure of a try that was made before it was due.
func (r *Retry) Failed(began, now time.Time) {
	if r.At.After(began) {
		return
	}
	r.Tries++
	r.At = now.Add(Pause(r.Tries))
}

// Due is the earliest of several times. The zero Due has none.
type Due struct{ First time.Time }

// At adds a time, unless it is zero.
func (d *Due) At(t time.Time) {
	if !t.IsZero() && (d.First.IsZero() || t.Before(d.First)) {
		d.First = t
	}
}

// After returns the time until then, at least a millisecond, or 0 if there is no time.
func (d Due) After(now time.Time) time.Duration {
	if d.First.IsZero() {
		return 0
	}
	return max(d.First.Sub(now), time.Millisecond)
}

// Again schedules the retries of a rejected request that did not change: the cause of the rejection
// may have been temporary.
type Again struct {
	Code  uint32 // HRESULT of the last rejection, or 0
	Tries int
	At    time.Time
}

// FirstRefused is the pause after the first rejection.
const FirstRefused = 30 * time.Second

// pauses are the pauses after the first rejections. The last one repeats.
var pauses = []time.Duration{FirstRefused, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute}

// Failed records a rejection and schedules the next try.
func (a *Again) Failed(err error, now time.Time) {
	a.Code = hns.CodeOf(err)
	a.Tries++
	a.Wait(now)
}

// NotBefore delays the next try until a time, if it is due earlier.
func (a *Again) NotBefore(at time.Time) {
	if a.At.Before(at) {
		a.At = at
	}
}

// Wait starts the current pause again.
func (a *Again) Wait(now time.Time) { a.At = now.Add(pauses[min(max(a.Tries, 1), len(pauses))-1]) }

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
