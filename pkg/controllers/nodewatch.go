package controllers

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// nodesPatience is how long the previous version of a ClusterNetworkPolicy that names nodes stays
// in force while the agent waits for the first list of nodes. A list takes less than a second.
const nodesPatience = 10 * time.Second

// nodesState says what is known of the nodes of the cluster.
type nodesState uint8

const (
	nodesAwaited nodesState = iota // the first list was requested less than nodesPatience ago
	nodesMissing                   // the first list takes longer than nodesPatience
	nodesKnown                     // the first list was received
)

// nodeWatch watches the nodes of the cluster while a user needs them. A user is a
// ClusterNetworkPolicy that has nodes as peers, or contests. At other times there is no watch:
// every node has an agent, and each agent would read every node.
type nodeWatch[T any] struct {
	source  cache.ListerWatcher
	kept    kept[T]
	logger  klog.Logger
	enqueue func(Key)                  // is called with the key of each changed node
	decides func(nodesState, []string) // is called with the users when the nodes become known or missing
	changed chan struct{}              // signals that the first user came or the last one left

	mu      sync.Mutex      // guards the fields below; not held during any callback
	wanting map[string]bool // the users, by the name that they pass to want
	is      nodesState
	decided chan struct{} // closed when the state leaves nodesAwaited, or the last user leaves
	store   *store[T]
	tracked *tracked // nil without users
}

func newNodeWatch[T any](source cache.ListerWatcher, k kept[T], logger klog.Logger, enqueue func(Key), decides func(nodesState, []string)) *nodeWatch[T] {
	return &nodeWatch[T]{
		source: source, kept: k, logger: logger, enqueue: enqueue, decides: decides, changed: make(chan struct{}, 1),
		wanting: map[string]bool{}, decided: make(chan struct{}), store: newStore(k, enqueue),
	}
}

// want adds or removes a user of the nodes, for example a policy. It returns the state of the nodes.
// As long as there are users, known nodes stay known.
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

// get returns a node of the cluster. It returns false if there is no such node, or no user.
func (w *nodeWatch[T]) get(name string) (T, bool) {
	w.mu.Lock()
	s := w.store
	w.mu.Unlock()
	return s.get(cache.ObjectName{Name: name})
}

// known reports whether the nodes are known and up to date: the last request succeeded, and the API
// server is not silent.
func (w *nodeWatch[T]) known() bool {
	w.mu.Lock()
	is, t := w.is, w.tracked
	w.mu.Unlock()
	return is == nodesKnown && t != nil && t.lastError() == nil && time.Since(t.contact()) < silentAfter
}

// followed returns the source of the nodes, or nil without users.
func (w *nodeWatch[T]) followed() *tracked {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tracked
}

// settle waits until the nodes are known or missing, or have no user. It returns false when ctx is
// done.
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

// run watches the nodes whenever there are users, until ctx is done.
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

// follow watches the nodes until the last user leaves.
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

// forget drops all nodes. If there is a user again, it keeps them: a policy in force may name them.
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

// decide sets the state to known or missing, and calls decides with all users. When the state is
// known, the nodes were enqueued before. decide does nothing if the nodes are known already.
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
