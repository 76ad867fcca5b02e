package controllers

import (
	"sync"
	"time"
)

// queue has the keys of what needs a sync, each once. It is taken whole, so it
// keeps no more memory than what waits.
type queue struct {
	some  chan struct{} // full while there are keys that nobody was told of
	hurry chan struct{} // the same for those with more haste than all before

	mu   sync.Mutex        // guards following; held for no call
	keys map[Key]time.Time // when the first event came in, zero for no event
	most haste             // of them
}

func newQueue() *queue {
	return &queue{some: make(chan struct{}, 1), hurry: make(chan struct{}, 1), keys: map[Key]time.Time{}}
}

// Add takes a key that stands for no event.
func (q *queue) Add(key Key) { q.AddEvent(key, time.Time{}, prompt) }

// AddEvent takes the key of an object that changed.
func (q *queue) AddEvent(key Key, at time.Time, h haste) {
	q.mu.Lock()
	defer q.mu.Unlock()
	earlier(q.keys, key, at)
	tell(q.some)
	if h > q.most {
		q.most = h
		tell(q.hurry)
	}
}

// tell fills a channel that has room for one.
func tell(full chan<- struct{}) {
	select {
	case full <- struct{}{}:
	default:
	}
}

// Some tells once of keys that wait.
func (q *queue) Some() <-chan struct{} { return q.some }

// Hurry tells once that a key waits which has more haste than all before it.
func (q *queue) Hurry() <-chan struct{} { return q.hurry }

// Haste returns how much haste the keys that wait have.
func (q *queue) Haste() haste {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.most
}

// Take returns the keys that wait, and forgets them. An event that comes later brings its
// key again, as the object may have been read before it.
func (q *queue) Take() map[Key]time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, told := range []chan struct{}{q.some, q.hurry} {
		select {
		case <-told:
		default:
		}
	}
	keys := q.keys
	q.keys, q.most = map[Key]time.Time{}, restful
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
