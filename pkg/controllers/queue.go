package controllers

import "sync"

// queue has the keys of what needs a sync, each once. It is taken whole, so it
// keeps no more memory than what waits.
type queue struct {
	some  chan struct{} // full while there are keys that nobody was told of
	hurry chan struct{} // the same for those with more haste than all before

	mu   sync.Mutex // guards following; held for no call
	keys map[Key]bool
	most haste // of them
}

func newQueue() *queue {
	return &queue{some: make(chan struct{}, 1), hurry: make(chan struct{}, 1), keys: map[Key]bool{}}
}

// Add takes a key.
func (q *queue) Add(key Key) { q.AddHasty(key, prompt) }

// AddHasty takes a key with its haste.
func (q *queue) AddHasty(key Key, h haste) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.keys[key] = true
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
func (q *queue) Take() map[Key]bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, told := range []chan struct{}{q.some, q.hurry} {
		select {
		case <-told:
		default:
		}
	}
	keys := q.keys
	q.keys, q.most = map[Key]bool{}, restful
	return keys
}

// Len returns the number of keys that wait.
func (q *queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.keys)
}
