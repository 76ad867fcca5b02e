package controllers

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// nodesPatience is how long a ClusterNetworkPolicy waits for the first list of the nodes
// that it names, as it was before. A list takes less than a second.
const nodesPatience = 10 * time.Second

// nodesState says what is known of the nodes of the cluster.
type nodesState uint8

const (
	nodesAwaited nodesState = iota // their first list is on its way
	nodesMissing                   // it takes too long
	nodesKnown
)

// nodeWatch follows the nodes of the cluster while they are wanted, for example by a
// ClusterNetworkPolicy that has nodes as peers, and only then: there are as many nodes as agents,
// and each agent would read all.
type nodeWatch[T any] struct {
	source  cache.ListerWatcher
	kept    kept[T]
	logger  klog.Logger
	enqueue func(Key)                  // takes the key of a node that changed
	decides func(nodesState, []string) // is told who wants nodes when they are known, or missing
	changed chan struct{}              // full when wanting became true or false

	mu      sync.Mutex // guards following; held for no call
	wanting map[string]bool
	is      nodesState
	decided chan struct{} // closed when it is not nodesAwaited any more, or nobody wants nodes
	store   *store[T]
	tracked *tracked // nil while nobody wants nodes
}

func newNodeWatch[T any](source cache.ListerWatcher, k kept[T], logger klog.Logger, enqueue func(Key), decides func(nodesState, []string)) *nodeWatch[T] {
	return &nodeWatch[T]{
		source: source, kept: k, logger: logger, enqueue: enqueue, decides: decides, changed: make(chan struct{}, 1),
		wanting: map[string]bool{}, decided: make(chan struct{}), store: newStore(k, enqueue),
	}
}

// want says whether nodes are wanted for something, as a policy that has them as peers. It returns
// what is known of them: as long as they are wanted, what is known is not forgotten.
func (w *nodeWatch[T]) want(by string, wants bool) nodesState {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := len(w.wanting) > 0
	if delete(w.wanting, by); wants {
		w.wanting[by] = true
	}
	if before != (len(w.wanting) > 0) {
		tell(w.changed)
	}
	return w.is
}

func (w *nodeWatch[T]) wanted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.wanting) > 0
}

// get returns a node of the cluster; false when there is none, or nobody wants any.
func (w *nodeWatch[T]) get(name string) (T, bool) {
	w.mu.Lock()
	s := w.store
	w.mu.Unlock()
	return s.get(cache.ObjectName{Name: name})
}

// known reports whether all nodes are known as they are now: the last request for them did not fail,
// and the API server is not silent.
func (w *nodeWatch[T]) known() bool {
	w.mu.Lock()
	is, t := w.is, w.tracked
	w.mu.Unlock()
	return is == nodesKnown && t != nil && t.lastError() == nil && time.Since(t.contact()) < silentAfter
}

// followed returns the source of the nodes, nil while nobody wants them.
func (w *nodeWatch[T]) followed() *tracked {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tracked
}

// settle waits until nobody wants nodes, they are known, or they are missing. It returns
// false when ctx is done.
func (w *nodeWatch[T]) settle(ctx context.Context) bool {
	for {
		w.mu.Lock()
		waits, decided := len(w.wanting) > 0 && w.is == nodesAwaited, w.decided
		w.mu.Unlock()
		if !waits {
			return ctx.Err() == nil
		}
		select {
		case <-decided:
		case <-ctx.Done():
			return false
		}
	}
}

// run follows the nodes whenever somebody wants them, until ctx is done.
func (w *nodeWatch[T]) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.changed:
		}
		for w.wanted() && ctx.Err() == nil {
			w.follow(ctx)
			w.forget()
		}
	}
}

// follow follows the nodes until nobody wants them any more.
func (w *nodeWatch[T]) follow(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	w.mu.Lock()
	i := newInformer(w.kept.kind, w.store, w.store.synced, w.source, w.logger)
	w.tracked = i.source
	w.mu.Unlock()
	var running sync.WaitGroup
	running.Go(func() { i.run(ctx) })

	late := time.NewTimer(nodesPatience)
	defer late.Stop()
	synced := i.synced
	for done := false; !done; {
		select {
		case <-synced:
			synced = nil
			w.decide(nodesKnown)
		case <-late.C:
			w.decide(nodesMissing)
		case <-w.changed:
			done = !w.wanted()
		case <-ctx.Done():
			done = true
		}
	}
	stop()
	running.Wait()
}

// forget forgets all nodes, unless somebody wants them again: what a policy in force
// names must not go.
func (w *nodeWatch[T]) forget() {
	w.mu.Lock()
	if len(w.wanting) > 0 {
		w.mu.Unlock()
		return
	}
	was := w.store
	if w.is == nodesAwaited {
		close(w.decided)
	}
	w.is, w.decided, w.tracked = nodesAwaited, make(chan struct{}), nil
	w.store = newStore(w.kept, w.enqueue)
	w.mu.Unlock()
	for _, n := range was.all() {
		w.enqueue(Key{Kind: w.kept.kind, Name: w.kept.nameOf(n).Name})
	}
}

// decide tells those who want nodes that they are known, or missing. They were enqueued before.
// What is known stays known.
func (w *nodeWatch[T]) decide(is nodesState) {
	w.mu.Lock()
	if w.is == nodesKnown {
		w.mu.Unlock()
		return
	}
	if w.is == nodesAwaited {
		close(w.decided)
	}
	w.is = is
	var names []string
	for name := range w.wanting {
		names = append(names, name)
	}
	w.mu.Unlock()
	w.decides(is, names)
}
