package controllers

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// Pauses after an ApplyDataplane that failed as a whole: 1, 2, 4 … 30 s.
const (
	firstPause = time.Second
	lastPause  = 30 * time.Second
)

// work is the worker. It starts when everything is known, as what a half-known
// cluster seems to forbid or allow is wrong.
func (c *Controller) work(ctx context.Context) {
	c.status.begin()
	defer c.status.end()

	for _, i := range c.informers.all {
		select {
		case <-i.synced:
		case <-ctx.Done():
			return
		}
	}
	if !c.nodes.settle(ctx) {
		return
	}
	close(c.synced)
	c.queue.Add(Key{Kind: KindRetry}) // an empty cluster is worth a transaction too

	w := worker{
		c:       c,
		pace:    pace{interval: c.cfg.ApplyInterval},
		applied: appliedLog{every: c.cfg.ApplyInterval},
		pending: map[Key]time.Time{},
		retry:   time.AfterFunc(lastPause, func() { c.queue.Add(Key{Kind: KindRetry}) }),
	}
	w.retry.Stop()
	defer w.retry.Stop()
	for w.collect(ctx) {
		ready := w.ready()
		if ready {
			w.apply(ctx)
		}
		if c.running.Store(false); ready {
			tell(c.ended)
		}
	}
}

// worker is the state of the one worker goroutine.
type worker struct {
	c       *Controller
	pending map[Key]time.Time // drained and not applied yet; when it came in, zero for no event
	batches batches           // applied and not in HNS yet
	pace    pace
	applied appliedLog
	warned  map[state.Warning]bool
	retry   *time.Timer // enqueues KindRetry
	pause   time.Duration
	open    bool // transactions may be applied
}

// collect waits for a key and until HNS has rested, and then takes every key there
// is. It returns false when ctx is done.
func (w *worker) collect(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-w.c.queue.Some():
	}
	for rests := true; rests; {
		rest := time.NewTimer(time.Until(w.pace.next(w.c.queue.Haste())))
		select {
		case <-ctx.Done():
		case <-rest.C:
			rests = false
		case <-w.c.queue.Hurry():
		}
		if rest.Stop(); ctx.Err() != nil {
			return false
		}
	}
	w.c.running.Store(true)
	for key, at := range w.c.queue.Take() {
		earlier(w.pending, key, at)
	}
	return ctx.Err() == nil
}

// ready reports whether transactions may be applied: at once, or when the node
// has an address if that is required. It stays true.
func (w *worker) ready() bool {
	if w.open {
		return true
	}
	if !w.c.cfg.RequireNodeAddr {
		w.open = true
		return true
	}
	addrs := w.c.nodeAddrs()
	w.open = len(addrs) > 0
	w.c.status.setWaiting(!w.open)
	if !w.open {
		w.c.cfg.Logger.Info("waiting for the Node object to have an InternalIP", "node", w.c.cfg.Node)
	}
	for _, a := range addrs { // runbooks search for this line
		w.c.cfg.Logger.Info("node IP is " + a.String())
	}
	return w.open
}

// apply hands one transaction over. A panic below must end the process: there
// is no telling what was left half done.
func (w *worker) apply(ctx context.Context) {
	c := w.c
	w.pace.begin(time.Now())
	w.retry.Stop()
	defer c.status.does("")
	c.status.does("reading the objects that changed")
	tx := c.transaction(w.pending)
	tx.Yield = func() bool { return w.pace.yields(c.queue.Len() > 0, c.queue.Haste(), time.Now()) }

	c.status.does("handing over what changed")
	report, err := c.cfg.Applier.ApplyDataplane(ctx, tx)
	w.pace.end(report.Busy, time.Now())
	c.status.does("telling what was done")
	c.status.applied(report, err)
	w.tell(report, err)

	if err != nil {
		if ctx.Err() != nil {
			return // shutting down
		}
		w.pause = min(max(2*w.pause, firstPause), lastPause)
		w.retry.Reset(w.pause)
		c.cfg.Logger.Error(err, "apply failed", "objects", tx.Len(), "retryAfter", w.pause)
		return // what is pending stays
	}
	w.pause = 0
	w.pending = map[Key]time.Time{} // a map keeps the size that it had after the first list
	if next := report.Next(); next > 0 {
		w.retry.Reset(next)
	}
	w.applied.add(c.cfg.Logger, report, time.Now())
}

// tell passes on what a transaction did.
func (w *worker) tell(report state.Report, err error) {
	applied := Applied{Report: report, Err: err}
	if err == nil {
		w.batches.add(report.Generation, w.pending)
		applied.Programmed = w.batches.done(report.Waiting, time.Now())
	}
	for _, e := range report.NewEndpoints { // runbooks search for this line
		w.c.cfg.Logger.Info(fmt.Sprintf("updating endpoint cache to include %s: %s", e.Addr, e.ID))
	}
	for _, s := range report.Spellings { // docs/operations.md has this line
		w.c.cfg.Logger.Info("HNS shows in another form what was written", "kind", s.Kind, "object", s.Object, "sent", s.Sent, "shown", s.Shown)
	}
	for _, r := range report.Repairs { // docs/operations.md has this line
		w.c.cfg.Logger.Info("repaired what somebody else changed in HNS", "kind", r.Kind, "object", r.Object, "pod", r.Pod, "found", r.Found)
	}
	if err == nil {
		w.warn(report.Warnings)
		w.c.contests.setRivals(report.Rivals)
	}
	w.c.cfg.OnApplied(applied)
}

// warn logs each warning once when it becomes active and once when it is cleared.
func (w *worker) warn(warnings []state.Warning) {
	active := make(map[state.Warning]bool, len(warnings))
	for _, x := range warnings {
		if active[x] = true; !w.warned[x] {
			w.c.cfg.Logger.Info("warning raised", "kind", x.Kind, "object", x.Object, "reason", x.Reason, "message", x.Message)
		}
	}
	for x := range w.warned {
		if !active[x] {
			w.c.cfg.Logger.Info("warning cleared", "kind", x.Kind, "object", x.Object, "reason", x.Reason)
		}
	}
	w.warned = active
}

// transaction reads the present state of the objects.
func (c *Controller) transaction(keys map[Key]time.Time) *dataplane.Transaction {
	tx := dataplane.NewTransaction()
	for key := range keys {
		c.read(tx, key)
	}
	return tx
}

// readPod adds the current state of a pod to a transaction, after the deletion of earlier pods of
// the same name.
func (c *Controller) readPod(tx *dataplane.Transaction, key Key) {
	p, ok := c.informers.pods.get(key.name())
	if pod := (desired.PodKey{Namespace: key.Namespace, Name: key.Name}); c.finished.take(pod) {
		tx.DeleteFinishedPod(pod)
	} else {
		tx.DeletePod(pod)
	}
	if ok {
		tx.SharePod(c.contests.judged(c.claims.on(p)))
	}
}

// read puts the present state of what a key names into a transaction.
func (c *Controller) read(tx *dataplane.Transaction, key Key) {
	switch key.Kind {
	case KindPod:
		c.readPod(tx, key)
	case KindNamespace:
		if ns, ok := c.informers.namespaces.get(key.name()); ok {
			tx.SetNamespace(*ns)
		} else {
			tx.DeleteNamespace(key.Name)
		}
	case KindPolicy:
		if kept, ok := c.informers.policies.get(key.name()); ok {
			tx.SetPolicy(kept.object)
		} else {
			tx.DeletePolicy(policy.Key{Namespace: key.Namespace, Name: key.Name})
		}
	case KindNode:
		// A node that registers anew keeps the addresses that it had:
		// without any its pods' probes would fail.
		if addrs := c.nodeAddrs(); len(addrs) > 0 || !c.cfg.RequireNodeAddr {
			tx.SetNodeAddrs(addrs)
		}
	case KindClusterPolicy:
		c.readCluster(tx, key.Name)
	case KindClusterNode:
		if n, ok := c.nodes.get(key.Name); ok {
			tx.SetNode(n.Node)
		} else {
			tx.DeleteNode(key.Name)
		}
	case KindRetry: // any transaction retries what is due
	}
}

// readCluster puts the present state of a ClusterNetworkPolicy into a transaction. One with
// nodes as peers is left as it was as long as it may wait for them, and its key comes
// again. After that the rules that name them are closed.
func (c *Controller) readCluster(tx *dataplane.Transaction, name string) {
	kept, ok := c.informers.clusters.get(cache.ObjectName{Name: name})
	nodes := c.nodes.want(name, ok && kept.nodes)
	switch {
	case !ok:
		tx.DeleteClusterPolicy(name)
	case !kept.nodes, nodes == nodesKnown:
		tx.SetClusterPolicy(kept.object)
	case nodes == nodesMissing:
		tx.SetClusterPolicy(policy.WithoutNodes(kept.object))
	}
}

// nodeAddrs returns the IPv4 InternalIPs of the nodes seen.
func (c *Controller) nodeAddrs() []netip.Addr {
	var addrs []netip.Addr
	for _, n := range c.informers.nodes.all() {
		addrs = append(addrs, n.Addrs...)
	}
	return addrs
}

// NodeAddrs returns the IPv4 InternalIPs of a node.
func NodeAddrs(node *corev1.Node) []netip.Addr {
	var addrs []netip.Addr
	for _, a := range node.Status.Addresses {
		if addr, ok := parseIPv4(a.Address); ok && a.Type == corev1.NodeInternalIP {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}
