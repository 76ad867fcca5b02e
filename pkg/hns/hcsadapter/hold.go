package hcsadapter

import (
	"context"
	"fmt"
	"strings"
)

// opRelease is what health calls the closing of a handle that was held.
const opRelease = "Endpoint/Close"

// held is the handle of an endpoint between calls.
//
// That a query after a Modify on the same handle shows what the Modify did is
// what hcsshim relies on, whose every write ends with such a query.
type held struct {
	asked bool // a call was made with it; guarded by Adapter.mu
	// h is open, unless it is 0. Only what the worker does touches it, so it needs
	// no lock: a call whose caller gave up is over before the close that a release
	// leaves to the worker.
	h handle
}

// Hold implements hns.Client. A release finds the worker free, or leaves the close
// to it: it is done before the worker's next calls, or never when a call hangs for
// good.
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
		a.worker.leave(ctx, job{opRelease, func() { a.service.drop(hold) }})
	}
}

// holdOf returns what holds an endpoint, for a call with it; nil: nobody does.
func (a *Adapter) holdOf(id string) *held {
	a.mu.Lock()
	defer a.mu.Unlock()
	hold := a.holds[strings.ToLower(id)]
	if hold != nil {
		hold.asked = true
	}
	return hold
}

// withEndpoint opens an endpoint for one use, or uses the handle that is held. After a use
// that failed the handle may be bad, so it is closed and the next use opens another.
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
	if err != nil {
		s.drop(hold)
	}
	return err
}

// drop closes the handle that is held, if there is one. It counts as closed
// whatever HNS says: there is no second way to close it.
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
