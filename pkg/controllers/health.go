package controllers

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/winnpm/winnpm/pkg/state"
)

// status is the state of the worker, for health checks.
type status struct {
	mu    sync.Mutex // guards the fields below; not held during calls
	apply error      // why not everything is programmed: the error of the last transaction, or that it has not run yet
	look  error      // the error of the last look at HNS as a whole
}

// A transaction makes progress with each step of its work and with each call of HNS. After
// unreadyAfter without progress the agent is not ready, because new objects may not be programmed.
// After unhealthyAfter it is stuck, and a restart may help: no step takes a second normally.
// unhealthyAfter does not apply to a call of HNS: the client limits the time of calls, and reports
// one that hangs.
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

// stalled returns an error if the dataplane has made no progress for limit or longer.
func stalled(p state.Progress, limit time.Duration) error {
	if took := time.Since(p.Since); p.Doing != "" && took >= limit {
		return fmt.Errorf("a transaction has made no progress for %v: %s", took.Round(time.Second), p.Doing)
	}
	return nil
}

// Healthy returns nil while the dataplane makes progress, and while it has nothing to do. An error is a
// reason to restart the process. A long transaction is no error: with many endpoints and a slow HNS it takes its time,
// and the client reports a call that hangs. Healthy never waits.
func (c *Controller) Healthy() error {
	if p := c.cfg.Progress(); !p.InHNS {
		return stalled(p, unhealthyAfter)
	}
	return nil
}

// Ready returns nil while the known objects are programmed and kept up to date. It ignores single
// objects that HNS rejects or does not answer for, and objects that another program keeps changing:
// they have warnings. The cause of an error may pass by itself. Ready never waits.
func (c *Controller) Ready() error {
	informers := c.informers
	if len(c.namingNodes()) > 0 { // otherwise no rule depends on the nodes of the cluster
		informers = append(slices.Clone(informers), c.allNodes.informer)
	}
	for _, i := range informers {
		if err := i.problem(); err != nil {
			return err
		}
	}
	if err := stalled(c.cfg.Progress(), unreadyAfter); err != nil {
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
