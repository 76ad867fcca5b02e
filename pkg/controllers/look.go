package controllers

import (
	"context"
	"time"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/dataplane"
)

const (
	// lookShare limits the share of HNS's time that looks take: after a look, HNS rests lookShare
	// times as long as the look took.
	lookShare = 9
	// heldAtMost is the longest time that transactions delay a look: twice the usual interval
	// between two enumerations of GUIDs. A recreated endpoint must also be found during a flood of
	// events, and a few calls in that time hardly delay the events.
	heldAtMost = 10 * time.Second
)

// looks schedules the looks of the worker: at the times that the Observer returns, later after
// failures and while transactions wait. The first look follows the first transaction, which reads
// HNS itself.
type looks struct {
	observer Observer // nil: there are no looks
	began    bool
	next     dataplane.Look
	at       time.Time // when next is due
	held     time.Time // since when transactions have delayed the due look; zero if they do not
	rested   time.Time // when the pause after the last look ends
	tries    int       // looks that failed, one after the other
}

// begins returns when the next look begins if nothing changes until then. waiting says whether a
// transaction waits.
func (l *looks) begins(now time.Time, waiting bool) time.Time {
	at := l.at
	if at.Before(l.rested) {
		at = l.rested
	}
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
	defer func() { l.next, l.at = l.observer.NextLook() }()
	look, began := l.next, time.Now()
	due, err := l.observer.Observe(ctx, look)
	if ctx.Err() != nil {
		return
	}
	rest := max(lookShare*time.Since(began), leastRest)
	l.tries++
	if err != nil {
		rest = max(rest, backoff.Pause(l.tries))
	} else {
		l.tries = 0
	}
	l.held, l.rested = time.Time{}, time.Now().Add(rest)
	if look.Enumerate || look.Sets { // a look at single endpoints says nothing about HNS as a whole
		c.status.update(func(s *status) { s.look = err })
	}
	if err != nil {
		c.cfg.Logger.Error(err, "reading HNS failed", "look", look, "retryAfter", rest)
	} else if due {
		c.queue.Add(ObjectKey{Kind: KindRetry}, prompt, time.Time{})
	}
}
