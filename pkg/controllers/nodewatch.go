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

// nodeWatch watches the nodes of the cluster from the first time on that something needs them: a
// ClusterNetworkPolicy that has nodes as peers, or a contested address. Until then there is no
// watch: every node has an agent, and each agent would read every node.
type nodeWatch struct {
	*store[clusterNode]
	informer *informer
	decided  func() // called when the nodes become known, and when they are late
	needed   chan struct{}
	once     sync.Once     // closes needed
	late     chan struct{} // closed nodesPatience after needed
}

func newNodeWatch(source cache.ListerWatcher, logger klog.Logger, changed func(key Key, was, is *clusterNode), decided func()) *nodeWatch {
	s := newStore(keptClusterNodes(), changed)
	i := newInformer(KindClusterNode, s, source, logger)
	i.first = decided
	return &nodeWatch{store: s, informer: i, decided: decided, needed: make(chan struct{}), late: make(chan struct{})}
}

// need starts the watch, unless it has started.
func (w *nodeWatch) need() { w.once.Do(func() { close(w.needed) }) }

// run watches the nodes until ctx is done.
func (w *nodeWatch) run(ctx context.Context) {
	select {
	case <-w.needed:
	case <-ctx.Done():
		return
	}
	timer := time.AfterFunc(nodesPatience, func() {
		if close(w.late); !w.known() {
			w.decided()
		}
	})
	defer timer.Stop()
	w.informer.run(ctx)
}

// settle waits until the nodes are known or late, if something needs them.
func (w *nodeWatch) settle(ctx context.Context) {
	if !isClosed(w.needed) {
		return
	}
	select {
	case <-w.informer.synced:
	case <-w.late:
	case <-ctx.Done():
	}
}

// known reports whether all nodes are in the store.
func (w *nodeWatch) known() bool { return isClosed(w.informer.synced) }

// nodesDecided has the worker read each policy again that names nodes.
func (c *Controller) nodesDecided() {
	names := c.namingNodes()
	if len(names) > 0 && !c.allNodes.known() {
		c.cfg.Logger.Info("the nodes of the cluster are not known yet, policies that name nodes are closed", "waited", nodesPatience, "policies", len(names))
	}
	for _, name := range names {
		c.queue.Add(Key{KindClusterPolicy, cache.ObjectName{Name: name}})
	}
}

// namingNodes returns the names of the policies that have nodes as peers.
func (c *Controller) namingNodes() (names []string) {
	for _, p := range c.clusters.all() {
		if p.nodes {
			names = append(names, p.object.Name)
		}
	}
	return names
}
