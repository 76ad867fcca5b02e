package controllers

import (
	"errors"
	"fmt"
	"sync"

	"github.com/winnpm/winnpm/pkg/dataplane"
)

// status is what the worker says of itself.
type status struct {
	mu      sync.Mutex // guards following; held for no call
	alive   bool
	waiting bool   // for the Node's address
	first   bool   // a transaction was applied
	err     error  // of the last transaction
	hns     string // what HNS did not answer in the last transaction
	look    error  // of the last look that was not at single endpoints
}

func (s *status) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alive = true
}

func (s *status) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alive = false
}

func (s *status) setWaiting(waiting bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = waiting
}

func (s *status) applied(r dataplane.Report, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.hns = err, ""
	s.first = s.first || err == nil
	for _, w := range r.Warnings {
		if w.Kind == warnsOfNode && w.Reason == dataplane.ReasonHNSUnavailable {
			s.hns = fmt.Sprintf("%s %s: %s", w.Kind, w.Object, w.Message)
			break
		}
	}
}

// warnsOfNode is the kind of warnings that are about HNS as a whole. One endpoint that
// it does not write is a warning of its own: it stands until that endpoint is right,
// which may be never, and the others are served.
const warnsOfNode = "Node"

// looked takes how a look ended. One at single endpoints says nothing of HNS as a
// whole.
func (s *status) looked(look dataplane.Look, err error) {
	if !look.Enumerate && !look.Sets && !look.All {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.look = err
}

// Healthy returns nil while the worker runs; what it returns otherwise is a
// reason to restart the process. A long transaction is none: with many endpoints
// and a slow HNS it takes its time, and a call that hangs is the client's to
// tell. It never waits.
func (c *Controller) Healthy() error {
	c.status.mu.Lock()
	defer c.status.mu.Unlock()
	if !c.status.alive {
		return errors.New("the worker is not running")
	}
	return nil
}

// Ready returns nil while what is known is programmed and kept up to date, but for
// single objects that HNS refuses or does not answer for, or that somebody else keeps
// changing: warnings tell of those. What it returns otherwise may pass by itself. It
// never waits.
func (c *Controller) Ready() error {
	if err := c.SourceError(); err != nil {
		return fmt.Errorf("the API server does not answer: %w", err)
	}
	c.status.mu.Lock()
	defer c.status.mu.Unlock()
	switch s := &c.status; {
	case s.waiting:
		return fmt.Errorf("node %q has no InternalIP yet", c.cfg.Node)
	case s.err != nil:
		return fmt.Errorf("the last transaction failed: %w", s.err)
	case s.hns != "":
		return fmt.Errorf("HNS does not answer: %s", s.hns)
	case s.look != nil:
		return fmt.Errorf("HNS does not answer: %w", s.look)
	case !s.first:
		return errors.New("not everything is known and programmed yet")
	}
	return nil
}

// SourceError returns why the last request to the API server failed, nil when
// none did. It never waits.
func (c *Controller) SourceError() error {
	for _, i := range c.informers.all {
		if err := i.source.lastError(); err != nil {
			return err
		}
	}
	return nil
}
