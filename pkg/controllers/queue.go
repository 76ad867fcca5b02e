package controllers

import (
	"sync"
	"time"
)

// queue has the keys of what needs a sync, each once. It is taken whole, so it
// keeps no more memory than what waits.
type queue struct {
	wake chan struct{} // full while the worker was not told of a first key, or of more haste

	mu   sync.Mutex        // guards the fields below; not held during any call
	keys map[Key]time.Time // when the first event came in, zero for no event
	most haste             // of them
}

func newQueue() *queue {
	return &queue{wake: make(chan struct{}, 1), keys: map[Key]time.Time{}}
}

// Add takes a key that stands for no event.
func (q *queue) Add(key Key) { q.AddEvent(key, time.Time{}, prompt) }

// AddEvent takes the key of an object that changed.
func (q *queue) AddEvent(key Key, at time.Time, h haste) {
	q.mu.Lock()
	defer q.mu.Unlock()
	news := len(q.keys) == 0 || h > q.most
	earlier(q.keys, key, at)
	q.most = max(q.most, h)
	if news {
		select {
		case q.wake <- struct{}{}:
		default:
		}
	}
}

// Waiting returns how many keys wait, and how much haste they have.
func (q *queue) Waiting() (keys int, most haste) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.keys), q.most
}

// Take returns the keys that wait, and forgets them. An event that comes later brings its
// key again, as the object may have been read before it.
func (q *queue) Take() map[Key]time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	keys := q.keys
	q.keys, q.most = map[Key]time.Time{}, restful
	return keys
}

// earlier adds a key; of several events of it the first one counts.
func earlier(keys map[Key]time.Time, key Key, at time.Time) {
	if was, ok := keys[key]; !ok || was.IsZero() {
		keys[key] = at
	}
}
