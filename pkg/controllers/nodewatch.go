package controllers

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
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

// nodeWatch follows the nodes of the cluster while a ClusterNetworkPolicy has nodes as
// peers, and only then: there are as many as agents, and each agent would read all.
type nodeWatch struct {
	source  cache.ListerWatcher
	budgets policy.Budgets
	logger  klog.Logger
	enqueue func(Key)
	queue   *queue
	changed chan struct{} // full when wanting became true or false

	mu      sync.Mutex // guards following; held for no call
	wanting map[string]bool
	is      nodesState
	decided chan struct{} // closed when it is not nodesAwaited any more, or nobody wants nodes
	store   *store[*state.Node]
	tracked *tracked // nil while nobody wants nodes
}

func newNodeWatch(source cache.ListerWatcher, b policy.Budgets, logger klog.Logger, enqueue func(Key), q *queue) *nodeWatch {
	return &nodeWatch{
		source: source, budgets: b, logger: logger, enqueue: enqueue, queue: q, changed: make(chan struct{}, 1),
		wanting: map[string]bool{}, decided: make(chan struct{}), store: newStore(keptClusterNodes(b), enqueue),
	}
}

// want says whether a policy has nodes as peers. It returns what is known of them: as long
// as the policy wants them, what is known is not forgotten.
func (w *nodeWatch) want(policy string, wants bool) nodesState {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := len(w.wanting) > 0
	if delete(w.wanting, policy); wants {
		w.wanting[policy] = true
	}
	if before != (len(w.wanting) > 0) {
		tell(w.changed)
	}
	return w.is
}

func (w *nodeWatch) wanted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.wanting) > 0
}

// get returns a node of the cluster; false when there is none, or nobody wants any.
func (w *nodeWatch) get(name string) (*state.Node, bool) {
	w.mu.Lock()
	s := w.store
	w.mu.Unlock()
	return s.get(cache.ObjectName{Name: name})
}

// followed returns the source of the nodes, nil while nobody wants them.
func (w *nodeWatch) followed() *tracked {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tracked
}

// settle waits until nobody wants nodes, they are known, or they are missing. It returns
// false when ctx is done.
func (w *nodeWatch) settle(ctx context.Context) bool {
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
func (w *nodeWatch) run(ctx context.Context) {
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
func (w *nodeWatch) follow(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	w.mu.Lock()
	i := newInformer(KindClusterNode, w.store, w.store.synced, w.source, w.logger)
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
func (w *nodeWatch) forget() {
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
	w.store = newStore(keptClusterNodes(w.budgets), w.enqueue)
	w.mu.Unlock()
	for _, n := range was.all() {
		w.enqueue(Key{Kind: KindClusterNode, Name: n.Name})
	}
}

// decide has the policies that name nodes applied: with the nodes, which were enqueued
// before, or without. What is known stays known.
func (w *nodeWatch) decide(is nodesState) {
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
	if is == nodesMissing {
		w.logger.Info("the nodes of the cluster are not known, what names them is closed", "waited", nodesPatience, "policies", len(names))
	}
	for _, name := range names {
		w.queue.Add(Key{Kind: KindClusterPolicy, Name: name})
	}
}
