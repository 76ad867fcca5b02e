package controllers

import (
	"context"
	"time"

	"github.com/winnpm/winnpm/pkg/dataplane"
)

// reconcile reads HNS from time to time and leaves what it saw to the worker.
// It reads in its own goroutine, so that a slow listing delays no event.
func (c *Controller) reconcile(ctx context.Context) {
	ticker := time.NewTicker(c.cfg.ReconcileInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		obs, err := c.cfg.Observer.Observe(ctx)
		if err != nil {
			if ctx.Err() == nil {
				c.cfg.Logger.Error(err, "reading HNS failed", "retryAfter", c.cfg.ReconcileInterval)
			}
			continue
		}
		c.observedMu.Lock()
		c.observed = obs
		c.observedMu.Unlock()
		c.queue.Add(Key{Kind: KindObservation})
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
