package controllers

import (
	"context"
	"time"

	"github.com/winnpm/winnpm/pkg/dataplane"
)

// reconcile reads HNS from time to time, and when it is woken, and leaves what it
// saw to the worker. It reads in its own goroutine, so that a slow listing
// delays no event.
func (c *Controller) reconcile(ctx context.Context) {
	timer := time.NewTimer(c.cfg.ReconcileInterval)
	defer timer.Stop()
	var pause time.Duration // after a failure; 0: none
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-c.cfg.Wake:
			pause = 0
		}
		next := c.cfg.ReconcileInterval
		obs, err := c.cfg.Observer.Observe(ctx, dataplane.Everything())
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			// Whoever woke us did so because HNS was restarted: it may take a moment.
			pause = min(max(2*pause, firstPause), next)
			next = pause
			c.cfg.Logger.Error(err, "reading HNS failed", "retryAfter", next)
		default:
			pause = 0
			c.observedMu.Lock()
			c.observed = obs
			c.observedMu.Unlock()
			c.queue.Add(Key{Kind: KindObservation})
		}
		timer.Reset(next)
	}
}

// takeObservation returns the latest observation once.
func (c *Controller) takeObservation() *dataplane.Observation {
	c.observedMu.Lock()
	defer c.observedMu.Unlock()
	obs := c.observed
	c.observed = nil
	return obs
}
