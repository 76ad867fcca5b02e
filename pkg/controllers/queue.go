package controllers

import (
	"sync"
	"time"
)

// queue has the keys of what needs a sync, each once. It is taken whole, so it
// keeps no more memory than what waits.
type queue struct {
	some chan struct{} // full while there are keys that nobody was told of

	mu   sync.Mutex        // guards keys; held for no call
	keys map[Key]time.Time // when the first event came in, zero for no event
}

func newQueue() *queue { return &queue{some: make(chan struct{}, 1), keys: map[Key]time.Time{}} }

// Add takes a key that stands for no event.
func (q *queue) Add(key Key) { q.AddEvent(key, time.Time{}) }

// AddEvent takes the key of an object that changed.
func (q *queue) AddEvent(key Key, at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	earlier(q.keys, key, at)
	select {
	case q.some <- struct{}{}:
	default:
	}
}

// Some tells once of keys that wait.
func (q *queue) Some() <-chan struct{} { return q.some }

// Take returns the keys that wait, and forgets them: an event that comes later
// brings its key again, as the object may be read before that.
func (q *queue) Take() map[Key]time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-q.some:
	default:
	}
	keys := q.keys
	q.keys = map[Key]time.Time{}
	return keys
}

// Len returns the number of keys that wait.
func (q *queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.keys)
}

// earlier adds a key; of several events of it the first one counts.
func earlier(keys map[Key]time.Time, key Key, at time.Time) {
	if was, ok := keys[key]; !ok || was.IsZero() {
		keys[key] = at
	}
}
