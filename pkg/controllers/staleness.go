package controllers

import (
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

// silentAfter is how long the API server may say nothing about a kind of objects before the agent is
// not ready.
const silentAfter = 5 * time.Minute

// maxWatchSeconds is how long a watch lasts at most; most last less, so that the agents of many
// nodes do not open theirs at once. It is shorter than silentAfter: of a kind that never changes, a
// server that sends no bookmarks says no more than that the watch is over.
const maxWatchSeconds = 240

// Staleness returns how long ago the API server last said something about each
// kind of object: a list, a change, one of the bookmarks that it sends about every
// minute when nothing changes, or the end of a watch in time. An open watch says
// nothing yet, and no error counts. A kind of which nothing was ever heard is
// as old as the Controller. It never waits.
func (c *Controller) Staleness() map[Kind]time.Duration {
	now := time.Now()
	out := map[Kind]time.Duration{}
	for _, i := range c.informers.all {
		out[i.source.kind] = now.Sub(i.source.contact())
	}
	return out
}

// sources returns the sources of all kinds that are followed now.
func (c *Controller) sources() []*tracked {
	var out []*tracked
	for _, i := range c.informers.all {
		out = append(out, i.source)
	}
	if t := c.nodes.followed(); t != nil {
		out = append(out, t)
	}
	return out
}

// silence returns an error that names a kind of which nothing was heard for too long.
func (c *Controller) silence() error {
	for _, t := range c.sources() {
		if age := time.Since(t.contact()); age >= silentAfter {
			return fmt.Errorf("the API server has said nothing about %s for %v", t.kind, age.Round(time.Second))
		}
	}
	return nil
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

// heardWatch passes a watch on and notes when the server says something. To have everything listed
// again, it ends as if the server had forgotten the history.
type heardWatch struct {
	watch.Interface
	of     *tracked
	ends   time.Time // when the server is to end it; zero: never
	events chan watch.Event
	done   chan struct{} // closed by Stop
	stop   sync.Once
}

func newHeardWatch(w watch.Interface, of *tracked, seconds *int64) *heardWatch {
	h := &heardWatch{Interface: w, of: of, events: make(chan watch.Event), done: make(chan struct{})}
	if seconds != nil {
		h.ends = time.Now().Add(time.Duration(*seconds) * time.Second)
	}
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
				h.ended()
				return
			}
			if event = e; e.Type != watch.Error {
				h.of.hear()
			} else {
				h.ends = time.Time{}
			}
		}
		select {
		case h.events <- event:
		case <-h.done:
			return
		}
	}
}

// ended notes that the watch is over. One that ended before its time says nothing: it may have been cut off.
func (h *heardWatch) ended() {
	if !h.ends.IsZero() && time.Until(h.ends) < time.Second {
		h.of.hear()
	}
}

// ResultChan implements watch.Interface.
func (h *heardWatch) ResultChan() <-chan watch.Event { return h.events }

// Stop implements watch.Interface.
func (h *heardWatch) Stop() {
	h.stop.Do(func() { close(h.done) })
	h.Interface.Stop()
}
