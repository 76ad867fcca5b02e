package controllers

import (
	"sync"
	"time"

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

// heardWatch passes a watch on and notes when something comes.
type heardWatch struct {
	watch.Interface
	heard  func()
	events chan watch.Event
	done   chan struct{} // closed by Stop
	stop   sync.Once
}

func newHeardWatch(w watch.Interface, heard func()) *heardWatch {
	h := &heardWatch{Interface: w, heard: heard, events: make(chan watch.Event), done: make(chan struct{})}
	go h.run()
	return h
}

// run ends with the watch below, or when nobody listens any more.
func (h *heardWatch) run() {
	defer close(h.events)
	for {
		var event watch.Event
		select {
		case <-h.done:
			return
		case e, ok := <-h.Interface.ResultChan():
			if !ok {
				return
			}
			event = e
		}
		h.heard()
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
