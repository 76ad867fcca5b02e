package controllers

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/watch"
)

// silentAfter is how long the API server may send nothing about a kind of objects before the agent
// becomes not ready.
const silentAfter = 5 * time.Minute

// maxWatchSeconds is the longest timeout of a watch. The agent chooses each timeout at random
// between half of it and all of it, so that the agents of many nodes do not reopen their watches at
// the same time. It is shorter than silentAfter: if the server sends no bookmarks and the objects do
// not change, the end of the watch is the only sign that the server is alive.
const maxWatchSeconds = 240

// Staleness returns, for each kind of object, the time since the API server last sent a list, a
// change, a bookmark (about one per minute while nothing changes), or the regular end of a watch.
// Errors and opened watches do not count. Before the first of these it is the age of the
// Controller. Staleness never blocks.
func (c *Controller) Staleness() map[Kind]time.Duration {
	now := time.Now()
	out := map[Kind]time.Duration{}
	for _, i := range c.informers.all {
		out[i.source.kind] = now.Sub(i.source.contact())
	}
	return out
}

// sources returns the sources of all kinds that the agent watches now.
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

// silence returns an error that names a kind about which the API server was silent for too long.
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

// relistIn returns how long it is until everything may be listed again; 0 means now, and begins
// the next pause.
func (t *tracked) relistIn() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	rest := max(0, time.Until(t.relisted.Add(relistPause)))
	if rest == 0 {
		t.relisted = time.Now()
	}
	return rest
}

// heardWatch forwards the events of a watch and records when the server sends something. To make
// the reflector list everything again, it ends with the error of an expired resource version.
type heardWatch struct {
	watch.Interface
	of     *tracked
	ends   time.Time // when the server should end the watch; zero if it has no timeout or sent an error
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

// run ends with the wrapped watch, or after Stop.
func (h *heardWatch) run() {
	defer close(h.events)
	for {
		var event watch.Event
		select {
		case <-h.done:
			return
		case <-h.of.again:
			if rest := h.of.relistIn(); rest > 0 {
				time.AfterFunc(rest, h.of.relist)
				continue
			}
			event = watch.Event{Type: watch.Error, Object: listAgain()}
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

// ended records that the server ended the watch. It ignores an early end, which may be a broken
// connection.
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
