package controllers

import (
	"sync"

	"github.com/winnpm/winnpm/pkg/dataplane"
)

// maxObserved is how many observations may wait for the worker. While so many do no
// look is made.
const maxObserved = 16

// observed are the observations that wait for the worker, in order. A transaction
// takes one.
type observed struct {
	mu      sync.Mutex // guards waiting; held for no call
	waiting []*dataplane.Observation
}

// put adds an observation.
func (o *observed) put(obs *dataplane.Observation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting = append(o.waiting, obs)
}

// take returns the first observation, nil for none, and whether more wait.
func (o *observed) take() (obs *dataplane.Observation, more bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.waiting) == 0 {
		return nil, false
	}
	obs, o.waiting = o.waiting[0], o.waiting[1:]
	return obs, len(o.waiting) > 0
}

// full reports whether no more may wait.
func (o *observed) full() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.waiting) >= maxObserved
}
