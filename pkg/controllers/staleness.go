package controllers

import (
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

// Staleness returns how long ago the API server last said something about each
// kind of object: a list, a change, or one of the bookmarks that it sends about
// every minute when nothing changes. A kind of which nothing was ever heard is
// as old as the Controller. It never waits.
func (c *Controller) Staleness() map[Kind]time.Duration {
	now := time.Now()
	out := map[Kind]time.Duration{}
	for _, i := range c.informers.all {
		out[i.source.kind] = now.Sub(i.source.contact())
	}
	return out
}

// relistPause is the least time between two lists that are made because there is room
// again for texts that were dropped. A tenant can cause such lists, and must not decide
// how often there is one.
const relistPause = time.Minute

// relist has everything listed again, soon. It never waits.
func (t *tracked) relist() { tell(t.again) }

// untilRelist returns how long it is until everything may be listed again.
func (t *tracked) untilRelist() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Until(t.relisted.Add(relistPause))
}

func (t *tracked) noteRelist() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.relisted = time.Now()
}

// heardWatch passes a watch on and notes when something comes. To have everything listed
// again, it ends as if the server had forgotten the history.
type heardWatch struct {
	watch.Interface
	of     *tracked
	events chan watch.Event
	done   chan struct{} // closed by Stop
	stop   sync.Once
}

func newHeardWatch(w watch.Interface, of *tracked) *heardWatch {
	h := &heardWatch{Interface: w, of: of, events: make(chan watch.Event), done: make(chan struct{})}
	go h.run()
	return h
}

// run ends with the watch below, or when nobody listens any more.
func (h *heardWatch) run() {
	defer close(h.events)
	again := h.of.again
	var due <-chan time.Time
	defer func() {
		if due != nil {
			h.of.relist() // the next watch does it
		}
	}()
	for {
		var event watch.Event
		select {
		case <-h.done:
			return
		case <-again:
			again, due = nil, time.After(h.of.untilRelist())
			continue
		case <-due:
			due = nil
			h.of.noteRelist()
			gone := apierrors.NewResourceExpired("everything is listed again: there is room for what was dropped").Status()
			event = watch.Event{Type: watch.Error, Object: &gone}
		case e, ok := <-h.Interface.ResultChan():
			if !ok {
				return
			}
			event = e
			h.of.hear()
		}
		select {
		case h.events <- event:
		case <-h.done:
			return
		}
	}
}

// ResultChan implements watch.Interface.
func (h *heardWatch) ResultChan() <-chan watch.Event { return h.events }

// Stop implements watch.Interface.
func (h *heardWatch) Stop() {
	h.stop.Do(func() { close(h.done) })
	h.Interface.Stop()
}
