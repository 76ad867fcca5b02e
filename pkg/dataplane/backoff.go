package dataplane

import (
	"fmt"
	"hash/fnv"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
)

// retry is a backoff: 1, 2, 4 … 30 s.
type retry struct {
	tries int
	at    time.Time // zero: nothing to retry
}

const maxBackoff = 30 * time.Second

// backoff returns the pause after so many failed tries.
func backoff(tries int) time.Duration {
	if tries > 5 {
		return maxBackoff
	}
	return min(time.Second<<max(tries-1, 0), maxBackoff)
}

// spread is backoff of one of many objects: from the third try on it comes early.
func spread(id string, tries int) time.Duration {
	pause := backoff(tries)
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

// failed schedules the next try of what failed now, in a run that began before.
// One that came before it was due does not count, nor does a second one in a run.
func (r *retry) failed(began, now time.Time) {
	if r.at.After(began) {
		return
	}
	r.tries++
	r.at = now.Add(backoff(r.tries))
}

// due is the first of several times; the zero due is none.
type due struct{ first time.Time }

// at adds a time, unless it is zero.
func (d *due) at(t time.Time) {
	if !t.IsZero() && (d.first.IsZero() || t.Before(d.first)) {
		d.first = t
	}
}

// after returns how long it is until then, at least a millisecond; 0 for none.
func (d due) after(now time.Time) time.Duration {
	if d.first.IsZero() {
		return 0
	}
	return max(d.first.Sub(now), time.Millisecond)
}

// again says when HNS is asked again for what it refused, though that did not
// change: what refused it may have been of the moment.
type again struct {
	code  uint32 // of the last answer; 0: none
	tries int
	at    time.Time
}

// pauses are those after the first tries; the last one is that after all others.
var pauses = []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute}

// failed takes one more refusal.
func (a *again) failed(err error, now time.Time) {
	a.code = hns.CodeOf(err)
	a.tries++
	a.wait(now)
}

// notBefore puts the next try off to a time, if it would come earlier.
func (a *again) notBefore(at time.Time) {
	if a.at.Before(at) {
		a.at = at
	}
}

// wait begins the pause anew.
func (a *again) wait(now time.Time) { a.at = now.Add(pauses[min(max(a.tries, 1), len(pauses))-1]) }
