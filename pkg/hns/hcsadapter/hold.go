package hcsadapter

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
)

// opRelease names the closing of a held handle in the error of Healthy.
const opRelease = "Endpoint/Close"

// held is the handle of an endpoint between calls. It relies on what hcsshim relies on, which ends
// each write with a query: a query after a Modify on the same handle shows the result of the
// Modify.
type held struct {
	h        handle      // an open handle, or 0; only calls of the worker use it, so it needs no lock
	asked    bool        // a call has used it; guarded by Adapter.mu
	released atomic.Bool // no further call will use it
}

// Hold implements hns.Client. release asks the worker to close the handle. If a call hangs or ctx has
// ended, release does not wait: then the call that uses the handle closes it. If no call uses the
// handle then, it stays open until the process ends.
func (a *Adapter) Hold(ctx context.Context, id string) (release func()) {
	key := strings.ToLower(id)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.holds[key] != nil {
		panic("BUG: endpoint " + id + " is held twice")
	}
	hold := &held{}
	a.holds[key] = hold
	return func() {
		a.mu.Lock()
		delete(a.holds, key)
		asked := hold.asked
		a.mu.Unlock()
		if !asked {
			return
		}
		hold.released.Store(true)
		_, _ = call(ctx, a.worker, opRelease, func() (struct{}, error) { // on failure, withEndpoint closes the handle
			a.service.drop(hold)
			return struct{}{}, nil
		})
	}
}

// holdOf returns the hold of an endpoint, for a call that uses it, or nil.
func (a *Adapter) holdOf(id string) *held {
	a.mu.Lock()
	defer a.mu.Unlock()
	hold := a.holds[strings.ToLower(id)]
	if hold != nil {
		hold.asked = true
	}
	return hold
}

// withEndpoint opens an endpoint for one use, or uses the held handle. It closes the held handle if
// the hold was released during the use. It also closes it after a failed use, because the handle
// may be bad; the next use opens another one.
func (s service) withEndpoint(id string, hold *held, use func(handle) error) error {
	if hold == nil {
		return s.with(kindEndpoint, id, use)
	}
	if hold.h == 0 {
		h, err := s.opened(kindEndpoint, id)
		if err != nil {
			return err
		}
		hold.h = h
	}
	err := use(hold.h)
	if err != nil || hold.released.Load() {
		s.drop(hold)
	}
	return err
}

// drop closes the held handle, if it is open. A handle that cannot be closed counts as closed,
// because there is no other way to close it.
func (s service) drop(hold *held) {
	if hold.h == 0 {
		return
	}
	h := hold.h
	hold.h = 0
	_ = s.close(kindEndpoint, h)
}

// endpoint reads an endpoint with all its policies.
func (s service) endpoint(id string, hold *held) (e endpoint, err error) {
	err = s.withEndpoint(id, hold, func(h handle) error {
		if err := s.show(kindEndpoint, h, &e); err != nil {
			return err
		}
		if !strings.EqualFold(e.ID, id) {
			return fmt.Errorf("HNS shows endpoint %q for %s", e.ID, id)
		}
		return nil
	})
	return e, err
}

// changeEndpoint changes the policies of an endpoint, in one Modify.
func (s service) changeEndpoint(id string, hold *held, request string) error {
	return s.withEndpoint(id, hold, func(h handle) error { return s.modify(kindEndpoint, h, request) })
}
