package controllers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/backoff"
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
	at       time.Time                // when next is due
	held     time.Time                // since when transactions have kept back a look; zero if none is kept back
	rested   time.Time                // when HNS has rested from the last look
	failures map[string]backoff.Retry // of looks that failed the last time
}

// begins returns when the next look begins, if nothing changes until then. waiting says whether a
// transaction is due.
func (l *looks) begins(now time.Time, waiting bool) time.Time {
	at := slices.MaxFunc([]time.Time{l.at, l.failures[nameOf(l.next)].At, l.rested}, time.Time.Compare)
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
	c.status.does("reading HNS")
	defer c.status.does("")
	due, err := l.observer.Observe(ctx, look)
	if ctx.Err() != nil {
		return
	}
	now := time.Now()
	l.held, l.rested = time.Time{}, now.Add(max(lookShare*now.Sub(began), leastRest))
	if look.Enumerate || look.Sets { // one at single endpoints says nothing of HNS as a whole
		c.status.update(func(s *status) { s.look = err })
	}
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
	maps.DeleteFunc(l.failures, func(_ string, r backoff.Retry) bool { return now.Sub(r.At) > 2*backoff.Longest })
	r := l.failures[nameOf(look)]
	r.Failed(now, now)
	l.failures[nameOf(look)] = r
	return backoff.Pause(r.Tries)
}

// nameOf returns a key for a look.
func nameOf(look dataplane.Look) string { return fmt.Sprint(look) }
