package controllers

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/winnpm/winnpm/pkg/state"
)

// status is what the worker says of itself.
type status struct {
	mu    sync.Mutex // guards following; held for no call
	alive bool
	apply error // why not everything is programmed: of the last transaction, or as there was none
	look  error // of the last look that was not at single endpoints

	// What the worker does itself, besides waiting, and since when.
	doing state.Progress
}

// Each piece of work and each call of HNS is progress of a transaction. Without progress
// for unreadyAfter the agent is not ready, as what is known may not be programmed. Without
// progress for unhealthyAfter something is stuck that a restart may free: no ordinary
// piece of work takes a second. The latter does not count calls of HNS: the client knows
// how long a call may take, and says when one hangs.
const (
	unreadyAfter   = 10 * time.Second
	unhealthyAfter = time.Minute
)

// update changes the status.
func (s *status) update(change func(*status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// does notes what the worker does now; "" when it waits for work.
func (s *status) does(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doing = state.Progress{Doing: what, Since: time.Now()}
}

// progress returns where the worker is. It is zero while the worker waits for work, or
// while the work does not say where it is. It waits for no lock that is held during a
// computation.
func (c *Controller) progress() state.Progress {
	c.status.mu.Lock()
	own := c.status.doing
	c.status.mu.Unlock()
	if own.Doing == "" || c.cfg.Progress == nil {
		return state.Progress{}
	}
	if p := c.cfg.Progress(); p.Doing != "" && !p.Since.Before(own.Since) {
		return p
	}
	return own
}

// stalled returns an error when the worker has made no progress for limit or longer.
func stalled(p state.Progress, limit time.Duration) error {
	if took := time.Since(p.Since); p.Doing != "" && took >= limit {
		return fmt.Errorf("a transaction has made no progress for %v: %s", took.Round(time.Second), p.Doing)
	}
	return nil
}

// Healthy returns nil while the worker runs and makes progress. An error is a reason to
// restart the process. A long transaction is none: with many endpoints and a slow HNS it
// takes its time, and the client reports a call that hangs. Healthy never waits.
func (c *Controller) Healthy() error {
	if p := c.progress(); !p.InHNS {
		if err := stalled(p, unhealthyAfter); err != nil {
			return err
		}
	}
	c.status.mu.Lock()
	defer c.status.mu.Unlock()
	if !c.status.alive {
		return errors.New("the worker is not running")
	}
	return nil
}

// Ready returns nil while what is known is programmed and kept up to date. Single objects
// do not count that HNS refuses or does not answer for, or that somebody else keeps
// changing: they have warnings. The cause of an error may pass by itself. Ready never
// waits.
func (c *Controller) Ready() error {
	informers := c.informers
	if len(c.namingNodes()) > 0 { // else the nodes of the cluster are not in force
		informers = append(slices.Clone(informers), c.allNodes.informer)
	}
	for _, i := range informers {
		if err := i.problem(); err != nil {
			return err
		}
	}
	if err := stalled(c.progress(), unreadyAfter); err != nil {
		return err
	}
	c.status.mu.Lock()
	defer c.status.mu.Unlock()
	if c.status.apply != nil {
		return c.status.apply
	}
	if c.status.look != nil {
		return fmt.Errorf("HNS does not answer: %w", c.status.look)
	}
	return nil
}

// Staleness returns, for each kind of object, the time since the API server last sent a list, a
// change, a bookmark (about one per minute while nothing changes), or the regular end of a watch.
// Errors and opened watches do not count. Before the first of these it is the age of the
// Controller. Staleness never blocks.
func (c *Controller) Staleness() map[Kind]time.Duration {
	out := map[Kind]time.Duration{}
	for _, i := range c.informers {
		out[i.kind] = i.silence()
	}
	return out
}
