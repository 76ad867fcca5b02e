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

// nodeWatch watches the nodes of the cluster while a user needs them: a ClusterNetworkPolicy
// that has nodes as peers, or contests. At other times there is no watch: every node has an agent,
// and each agent would read every node.
type nodeWatch struct {
	source  cache.ListerWatcher
	logger  klog.Logger
	enqueue func(Key)                  // is called with the key of each changed node
	decides func(nodesState, []string) // is called with the policies when the nodes become known or missing
	changed chan struct{}              // signals that the first user came or the last one left

	mu       sync.Mutex      // guards the fields below; not held during any callback
	policies map[string]bool // the policies that need the nodes, by name
	contests bool            // contests needs the nodes
	is       nodesState
	decided  chan struct{} // closed when the state leaves nodesAwaited, or the last user leaves
	store    *store[*clusterNode]
	tracked  *tracked // nil without users
}

func newNodeWatch(source cache.ListerWatcher, logger klog.Logger, enqueue func(Key), decides func(nodesState, []string)) *nodeWatch {
	return &nodeWatch{
		source: source, logger: logger, enqueue: enqueue, decides: decides, changed: make(chan struct{}, 1),
		policies: map[string]bool{}, decided: make(chan struct{}), store: newStore(keptClusterNodes(), enqueue),
	}
}

// want says whether a policy needs the nodes. It returns the state of the nodes. As long as there
// are users, known nodes stay known.
func (w *nodeWatch) want(policy string, wants bool) nodesState {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.wantedLocked()
	if delete(w.policies, policy); wants {
		w.policies[policy] = true
	}
	if before != w.wantedLocked() {
		tell(w.changed)
	}
	return w.is
}

// judge says whether contests needs the nodes.
func (w *nodeWatch) judge(wants bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.wantedLocked()
	if w.contests = wants; before != w.wantedLocked() {
		tell(w.changed)
	}
}

func (w *nodeWatch) wantedLocked() bool { return w.contests || len(w.policies) > 0 }

func (w *nodeWatch) wanted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wantedLocked()
}

// get returns a node of the cluster. It returns false if there is no such node, or no user.
func (w *nodeWatch) get(name string) (*clusterNode, bool) {
	w.mu.Lock()
	s := w.store
	w.mu.Unlock()
	return s.get(cache.ObjectName{Name: name})
}

// known reports whether the nodes are known and up to date: the last request succeeded, and the API
// server is not silent.
func (w *nodeWatch) known() bool {
	w.mu.Lock()
	is, t := w.is, w.tracked
	w.mu.Unlock()
	return is == nodesKnown && t != nil && t.lastError() == nil && time.Since(t.contact()) < silentAfter
}

// followed returns the source of the nodes, or nil if no policy needs them.
func (w *nodeWatch) followed() *tracked {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.policies) == 0 {
		return nil
	}
	return w.tracked
}

// settle waits until the nodes are known or missing, or have no user. It returns false when ctx is
// done.
func (w *nodeWatch) settle(ctx context.Context) bool {
	for {
		w.mu.Lock()
		waits, decided := w.wantedLocked() && w.is == nodesAwaited, w.decided
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

// follow watches the nodes until the last user leaves.
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

// forget drops all nodes. If there is a user again, it keeps them: a policy in force may name them.
func (w *nodeWatch) forget() {
	w.mu.Lock()
	if w.wantedLocked() {
		w.mu.Unlock()
		return
	}
	was := w.store
	if w.is == nodesAwaited {
		close(w.decided)
	}
	w.is, w.decided, w.tracked = nodesAwaited, make(chan struct{}), nil
	w.store = newStore(keptClusterNodes(), w.enqueue)
	w.mu.Unlock()
	for _, n := range was.all() {
		w.enqueue(Key{Kind: KindClusterNode, Name: n.Name})
	}
}

// decide sets the state to known or missing, and calls decides with all policies. When the state is
// known, the nodes were enqueued before. decide does nothing if the nodes are known already.
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
	for name := range w.policies {
		names = append(names, name)
	}
	w.mu.Unlock()
	w.decides(is, names)
}
