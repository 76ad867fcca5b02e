package controllers

import (
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/winnpm/winnpm/pkg/desired"
)

// Kind says what a key stands for.
type Kind uint8

// The kinds. KindRetry names no object: it wakes the worker.
const (
	KindPod Kind = iota + 1
	KindNamespace
	KindPolicy
	KindNode // the Node object of this node
	KindClusterPolicy
	KindClusterNode // any Node object of the cluster
	KindRetry       // a retry is due
)

// String returns the API's plural name of the kind.
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

// ObjectKey names an object to synchronize.
type ObjectKey struct {
	Kind Kind
	cache.ObjectName
}

func keyOfPod(pod desired.PodKey) ObjectKey { return ObjectKey{KindPod, cache.ObjectName(pod)} }

// haste says how long a change waits for HNS to rest.
type haste uint8

const (
	// restful waits until HNS has rested. Namespaces and pods of other nodes only affect sets. One
	// request for sets covers all waiting changes, so waiting saves requests.
	restful haste = iota
	// prompt waits for an apply interval at most. Endpoints are written one by one, so waiting
	// longer saves nothing.
	prompt
	// urgent waits for leastRest, because a pod may be open.
	urgent
)

// queue holds the keys of objects to synchronize, each once. Take empties it and hands over its
// map, so it does not keep the memory of a burst.
type queue struct {
	wake chan struct{} // has a value when a key came in since the worker last received

	mu   sync.Mutex              // guards the fields below; not held during any call
	keys map[ObjectKey]time.Time // when the first event of the key came in; zero without an event
	most haste                   // the highest haste of the keys
}

func newQueue() *queue {
	return &queue{wake: make(chan struct{}, 1), keys: map[ObjectKey]time.Time{}}
}

// Add adds a key and wakes the worker. at is when the object changed, or zero if the key comes
// without an event.
func (q *queue) Add(key ObjectKey, h haste, at time.Time) {
	q.mu.Lock()
	if was, ok := q.keys[key]; !ok || was.IsZero() { // the first of several events counts
		q.keys[key] = at
	}
	q.most = max(q.most, h)
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default: // a wake is waiting
	}
}

// Waiting returns the number of waiting keys and their highest haste.
func (q *queue) Waiting() (keys int, most haste) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.keys), q.most
}

// Take removes and returns all waiting keys. A later event adds its key again, because the worker
// may have read the object before the event.
func (q *queue) Take() map[ObjectKey]time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	keys := q.keys
	q.keys, q.most = map[ObjectKey]time.Time{}, restful
	return keys
}
