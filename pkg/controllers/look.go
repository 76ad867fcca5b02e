package controllers

import (
	"context"
	"fmt"
	"slices"
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

// looks says when the worker reads HNS: as the Observer says, and later after failures and while
// transactions wait. It begins after the first transaction, which reads by itself.
type looks struct {
	observer Observer // nil: there are no looks
	began    bool
	next     dataplane.Look
	at       time.Time // when next is due
	held     time.Time // since when transactions have kept back a look; zero if none is kept back
	rested   time.Time // when HNS has rested from the last look
	failures map[string]failure
}

// failure is a look that failed the last time.
type failure struct {
	pause time.Duration // from the last try to the next
	until time.Time
}

// ask asks the observer what to read next, and when.
func (l *looks) ask() {
	l.next, l.at = l.observer.NextLook()
	l.began = true
}

// begins returns when the next look begins, if nothing changes until then. waiting says whether a
// transaction is due.
func (l *looks) begins(now time.Time, waiting bool) time.Time {
	at := slices.MaxFunc([]time.Time{l.at, l.failures[nameOf(l.next)].until, l.rested}, time.Time.Compare)
	if at.After(now) || !waiting {
		l.held = time.Time{}
		return at
	}
	if l.held.IsZero() {
		l.held = now
	}
	return l.held.Add(heldAtMost)
}

// look reads HNS, and enqueues a retry if that finds something to do.
func (w *worker) look(ctx context.Context) {
	c, l := w.c, &w.looks
	defer l.ask()
	look, began := l.next, time.Now()
	c.status.does("reading HNS")
	defer c.status.does("")
	due, err := l.observer.Observe(ctx, look)
	if ctx.Err() != nil {
		return
	}
	now := time.Now()
	l.held, l.rested = time.Time{}, now.Add(max(lookShare*now.Sub(began), leastRest))
	c.status.looked(look, err)
	if err != nil {
		c.cfg.Logger.Error(err, "reading HNS failed", "look", look, "retryAfter", l.failed(look, now))
		return
	}
	delete(l.failures, nameOf(look))
	if due {
		c.queue.Add(Key{Kind: KindRetry})
	}
}

// failed returns the pause after a look that failed: 1, 2, 4 … 30 s. One that is not
// made again for a while, as its endpoint is gone, is forgotten.
func (l *looks) failed(look dataplane.Look, now time.Time) time.Duration {
	for name, f := range l.failures {
		if now.Sub(f.until) > 2*lastPause {
			delete(l.failures, name)
		}
	}
	pause := min(max(2*l.failures[nameOf(look)].pause, firstPause), lastPause)
	l.failures[nameOf(look)] = failure{pause, now.Add(pause)}
	return pause
}

// nameOf returns a key for a look.
func nameOf(look dataplane.Look) string { return fmt.Sprint(look) }
