// Package backoff says when something is tried again: after a failure, after a refusal,
// and after somebody else has undone it. It has values only; whoever uses them tells the
// time.
package backoff

import (
	"fmt"
	"hash/fnv"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
)

// Retry is the next try after failures, 1, 2, 4 … 30 s after the last one.
type Retry struct {
	Tries int
	At    time.Time // zero: nothing to retry
}

// Longest is the longest pause after a failure.
const Longest = 30 * time.Second

// Pause returns the pause after so many failed tries.
func Pause(tries int) time.Duration {
	if tries > 5 {
		return Longest
	}
	return min(time.Second<<max(tries-1, 0), Longest)
}

// Spread is Pause for one of many objects: from the third try on it ends early.
func Spread(id string, tries int) time.Duration {
	pause := Pause(tries)
	if tries < 3 {
		return pause
	}
	return early(pause, id, tries)
}

// early takes up to a fifth off a pause, by object and try, so that what failed
// together does not come back together for good.
func early(pause time.Duration, id string, tries int) time.Duration {
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, tries, id) // a hash takes everything
	return pause - pause/5*time.Duration(h.Sum32()%1000)/1000
}

// Failed schedules the next try of what failed now, in a run that began before.
// One that came before it was due does not count, nor does a second one in a run.
func (r *Retry) Failed(began, now time.Time) {
	if r.At.After(began) {
		return
	}
	r.Tries++
	r.At = now.Add(Pause(r.Tries))
}

// Due is the first of several times; the zero Due is none.
type Due struct{ First time.Time }

// At adds a time, unless it is zero.
func (d *Due) At(t time.Time) {
	if !t.IsZero() && (d.First.IsZero() || t.Before(d.First)) {
		d.First = t
	}
}

// After returns how long it is until then, at least a millisecond; 0 for none.
func (d Due) After(now time.Time) time.Duration {
	if d.First.IsZero() {
		return 0
	}
	return max(d.First.Sub(now), time.Millisecond)
}

// Again says when HNS is asked again for what it refused, though that did not
// change: what refused it may have been of the moment.
type Again struct {
	Code  uint32 // of the last answer; 0: none
	Tries int
	At    time.Time
}

// FirstRefused is the pause after the first refusal.
const FirstRefused = 30 * time.Second

// pauses are those after the first refusals; the last one is that after all others.
var pauses = []time.Duration{FirstRefused, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute}

// Failed takes one more refusal.
func (a *Again) Failed(err error, now time.Time) {
	a.Code = hns.CodeOf(err)
	a.Tries++
	a.Wait(now)
}

// NotBefore puts the next try off to a time, if it would come earlier.
func (a *Again) NotBefore(at time.Time) {
	if a.At.Before(at) {
		a.At = at
	}
}

// Wait begins the pause anew.
func (a *Again) Wait(now time.Time) { a.At = now.Add(pauses[min(max(a.Tries, 1), len(pauses))-1]) }
