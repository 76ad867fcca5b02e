package controllers

import (
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/winnpm/winnpm/pkg/desired"
)

// Kind says what a key stands for.
type Kind uint8

// The kinds. The last one names no object: it wakes the worker.
const (
	KindPod Kind = iota + 1
	KindNamespace
	KindPolicy
	KindNode // this one
	KindClusterPolicy
	KindClusterNode // of all nodes
	KindRetry       // what was put off is due
)

// String returns what the API server calls objects of the kind.
func (k Kind) String() string {
	switch k {
	case KindPod:
		return "pods"
	case KindNamespace:
		return "namespaces"
	case KindPolicy:
		return "networkpolicies"
	case KindNode:
		return "nodes"
	case KindClusterPolicy:
		return clusterResource
	case KindClusterNode:
		return "all nodes"
	case KindRetry:
		return "retry"
	}
	return "unknown"
}

// Key names something that needs a sync.
type Key struct {
	Kind Kind
	cache.ObjectName
}

func keyOfPod(pod desired.PodKey) Key { return Key{KindPod, cache.ObjectName(pod)} }

// haste says how long a change waits for HNS to rest.
type haste uint8

const (
	// restful: until it has rested. A request for sets takes all changes that wait,
	// so waiting makes requests fewer.
	restful haste = iota
	// prompt: for an apply interval at most, as what has to be written to endpoints
	// only becomes late by waiting.
	prompt
	// urgent: for leastRest, as a pod may be open.
	urgent
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
func (q *queue) Add(key Key) { q.add(key, time.Time{}, prompt) }

// AddEvent takes the key of an object that changed now. Namespaces and pods of other nodes are in sets
// alone, so they have no haste.
func (q *queue) AddEvent(key Key, h haste) { q.add(key, time.Now(), h) }

func (q *queue) add(key Key, at time.Time, h haste) {
	q.mu.Lock()
	defer q.mu.Unlock()
	news := len(q.keys) == 0 || h > q.most
	if was, ok := q.keys[key]; !ok || was.IsZero() { // of several events of a key the first one counts
		q.keys[key] = at
	}
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
