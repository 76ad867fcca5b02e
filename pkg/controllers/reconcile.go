package controllers

import (
	"context"
	"fmt"
	"time"

	"github.com/winnpm/winnpm/pkg/dataplane"
)

const (
	// lookShare bounds the part of HNS's time that looks have: after a look, HNS rests
	// lookShare times as long as the look took.
	lookShare = 9
	// heldAtMost is how long transactions delay a look: twice the interval at which GUIDs
	// are enumerated otherwise. An endpoint that is made anew has to be found during a
	// flood of events too, and a few calls in that time hardly delay the events.
	heldAtMost = 10 * time.Second
)

// reconcile looks at HNS as NextLook says, and wakes the worker for what it found. It begins after the first transaction, which reads by itself.
func (c *Controller) reconcile(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-c.ended:
	}
	r := reconciler{c: c, failures: map[string]failure{}}
	r.ask()
	for ctx.Err() == nil {
		timer := time.NewTimer(time.Until(r.begins(time.Now())))
		select {
		case <-ctx.Done():
		case <-c.ended:
			r.ask()
		case <-timer.C:
			if !r.begins(time.Now()).After(time.Now()) { // else a transaction has begun
				r.look(ctx)
				r.ask()
			}
		}
		timer.Stop()
	}
}

// reconciler is the state of the goroutine that looks.
type reconciler struct {
	c        *Controller
	next     dataplane.Look // to be made
	at       time.Time      // when it is due
	held     time.Time      // since when transactions keep a look back; zero: none does
	rested   time.Time      // when HNS has rested from the last look
	failures map[string]failure
}

// failure is a look that failed the last time.
type failure struct {
	pause time.Duration // from the last try to the next
	until time.Time
}

// ask asks what to read next.
func (r *reconciler) ask() { r.next, r.at = r.c.cfg.Observer.NextLook() }

// begins returns when the next look begins, if nothing changes until then.
func (r *reconciler) begins(now time.Time) time.Time {
	at := latest(latest(r.at, r.failures[nameOf(r.next)].until), r.rested)
	if at.After(now) {
		r.held = time.Time{}
		return at
	}
	if r.c.free() {
		return at
	}
	if r.held.IsZero() {
		r.held = now
	}
	return r.held.Add(heldAtMost)
}

// look reads HNS, and wakes the worker when that finds something to do.
func (r *reconciler) look(ctx context.Context) {
	c, look := r.c, r.next
	began := time.Now()
	due, err := c.cfg.Observer.Observe(ctx, look)
	if ctx.Err() != nil {
		return
	}
	now := time.Now()
	r.held, r.rested = time.Time{}, now.Add(max(lookShare*now.Sub(began), leastRest))
	c.status.looked(look, err)
	if err != nil {
		c.cfg.Logger.Error(err, "reading HNS failed", "look", look, "retryAfter", r.failed(look, now))
		return
	}
	delete(r.failures, nameOf(look))
	if due {
		c.queue.Add(Key{Kind: KindRetry})
	}
}

// failed returns the pause after a look that failed: 1, 2, 4 … 30 s. One that is not
// made again for a while, as its endpoint is gone, is forgotten.
func (r *reconciler) failed(look dataplane.Look, now time.Time) time.Duration {
	for name, f := range r.failures {
		if now.Sub(f.until) > 2*lastPause {
			delete(r.failures, name)
		}
	}
	pause := min(max(2*r.failures[nameOf(look)].pause, firstPause), lastPause)
	r.failures[nameOf(look)] = failure{pause, now.Add(pause)}
	return pause
}

// nameOf tells looks apart.
func nameOf(look dataplane.Look) string { return fmt.Sprint(look) }

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// free reports whether HNS is free for a look: no transaction runs, and none is due.
// The order matters: the worker says that it runs before it takes what waits.
func (c *Controller) free() bool { return c.queue.Len() == 0 && !c.running.Load() }
