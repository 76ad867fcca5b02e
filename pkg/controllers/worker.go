package controllers

import (
	"context"
	"fmt"
	"net/netip"
	"time"

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

// work runs the worker. It starts after every first list is in its store, because policies
// applied to a part of the cluster would be wrong.
func (c *Controller) work(ctx context.Context) {
	c.status.update(func() { c.status.alive = true })
	defer c.status.update(func() { c.status.alive = false })

	for _, i := range c.informers {
		select {
		case <-i.synced:
		case <-ctx.Done():
			return
		}
	}
	c.allNodes.settle(ctx)
	close(c.synced)
	c.queue.Add(Key{Kind: KindRetry}) // so that an empty cluster also gets a transaction

	w := worker{
		c:        c,
		pace:     pace{interval: c.cfg.ApplyInterval},
		applied:  appliedLog{every: c.cfg.ApplyInterval},
		pending:  map[Key]time.Time{},
		retry:    time.AfterFunc(lastPause, func() { c.queue.Add(Key{Kind: KindRetry}) }),
		looks:    looks{observer: c.cfg.Observer, failures: map[string]failure{}},
		contests: contests{queue: c.queue},
	}
	if c.cfg.JudgeContests && c.cfg.Source.AllNodes != nil {
		w.contests.nodes = c.allNodes
	}
	w.retry.Stop()
	defer w.retry.Stop()
	for ctx.Err() == nil {
		w.step(ctx)
	}
}

// worker is the state of the one worker goroutine.
type worker struct {
	c        *Controller
	pending  map[Key]time.Time // keys that are taken and not applied yet, and when each came; zero for no event
	batches  batches           // events that are applied and not in HNS yet
	pace     pace
	applied  appliedLog
	looks    looks
	contests contests
	warned   map[state.Warning]bool
	retry    *time.Timer // enqueues KindRetry
	pause    time.Duration
	open     bool // transactions may be applied
}

// step makes the transaction or the look that is due, or waits until there may be one: a transaction
// when keys wait and HNS has rested, and a look when no transaction waits, or only for too long.
func (w *worker) step(ctx context.Context) {
	now := time.Now()
	if len(w.contests.rivals) > 0 && now.Sub(w.contests.judged) >= judgeEvery {
		w.contests.again()
	}
	keys, most := w.c.queue.Waiting()
	wait := judgeEvery
	if w.looks.began {
		look := w.looks.begins(now, keys > 0)
		if !look.After(now) {
			w.look(ctx)
			return
		}
		wait = min(wait, look.Sub(now))
	}
	if keys > 0 {
		begins := w.pace.next[most]
		if !begins.After(now) {
			w.transact(ctx)
			return
		}
		wait = min(wait, begins.Sub(now))
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-w.c.queue.wake:
	case <-timer.C:
	}
}

// transact takes every key there is, and applies a transaction.
func (w *worker) transact(ctx context.Context) {
	for key, at := range w.c.queue.Take() {
		earlier(w.pending, key, at)
	}
	if !w.ready() {
		return
	}
	w.apply(ctx)
	if w.looks.observer != nil {
		w.looks.ask()
	}
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
	w.c.status.update(func() { w.c.status.waiting = !w.open })
	if !w.open {
		w.c.cfg.Logger.Info("waiting for the Node object to have an InternalIP", "node", w.c.cfg.Node)
	}
	for _, a := range addrs { // runbooks search for this line
		w.c.cfg.Logger.Info("node IP is " + a.String())
	}
	return w.open
}

// apply applies one transaction. A panic in it must end the process, because the state may be
// half changed.
func (w *worker) apply(ctx context.Context) {
	c := w.c
	w.pace.begin(time.Now())
	w.retry.Stop()
	defer c.status.does("")
	c.status.does("reading the objects that changed")
	tx := dataplane.NewTransaction()
	for key := range w.pending {
		w.read(tx, key)
	}
	tx.Yield = func() bool {
		keys, most := c.queue.Waiting()
		return w.pace.yields(keys > 0, most, time.Now())
	}

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
		return // the pending keys stay
	}
	w.pause = 0
	w.pending = map[Key]time.Time{} // a map keeps the size that it had after the first list
	if next := report.Next(); next > 0 {
		w.retry.Reset(next)
	}
	w.applied.add(c.cfg.Logger, report, time.Now())
}

// tell logs the results of a transaction, and passes its report on.
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
		if w.contests.nodes != nil {
			w.contests.setRivals(report.Rivals)
		}
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

// read adds the present state of the object of a key to a transaction.
func (w *worker) read(tx *dataplane.Transaction, key Key) {
	c := w.c
	switch key.Kind {
	case KindPod:
		w.readPod(tx, key)
	case KindNamespace:
		if ns := c.namespaces.get(key.ObjectName); ns != nil {
			tx.SetNamespace(*ns)
		} else {
			tx.DeleteNamespace(key.Name)
		}
	case KindPolicy:
		if kept := c.policies.get(key.ObjectName); kept != nil {
			tx.SetPolicy(kept.object)
		} else {
			tx.DeletePolicy(policy.Key(key.ObjectName))
		}
	case KindNode:
		// A node that registers anew keeps the addresses that it had:
		// without any its pods' probes would fail.
		if addrs := c.nodeAddrs(); len(addrs) > 0 || !c.cfg.RequireNodeAddr {
			tx.SetNodeAddrs(addrs)
		}
	case KindClusterPolicy:
		c.readCluster(tx, key)
	case KindClusterNode:
		w.contests.judged = time.Time{} // the next step judges all rivals again
		if n := c.allNodes.get(key.ObjectName); n != nil {
			tx.SetNode(n.Node)
		} else {
			tx.DeleteNode(key.Name)
		}
	case KindRetry: // any transaction retries what is due
	}
}

// readPod adds the current state of a pod to a transaction, after the deletion of earlier pods of
// the same name.
func (w *worker) readPod(tx *dataplane.Transaction, key Key) {
	p := w.c.pods.get(key.ObjectName)
	if w.c.finished.take(desired.PodKey(key.ObjectName)) {
		tx.DeleteFinishedPod(desired.PodKey(key.ObjectName))
	} else {
		tx.DeletePod(desired.PodKey(key.ObjectName))
	}
	switch {
	case p == nil:
		return
	case p.Local:
		p = w.c.claims.on(p)
	case w.contests.rivals[desired.PodKey(key.ObjectName)]:
		p = w.contests.judge(p)
	}
	tx.SharePod(p)
}

// readCluster adds the present state of a ClusterNetworkPolicy to a transaction. A policy with
// nodes as peers stays as it was while it may wait for the list of nodes, and its key is queued
// again. After that the rules with nodes close.
func (c *Controller) readCluster(tx *dataplane.Transaction, key Key) {
	switch kept := c.clusters.get(key.ObjectName); {
	case kept == nil:
		tx.DeleteClusterPolicy(key.Name)
	case !kept.nodes || c.allNodes.known():
		tx.SetClusterPolicy(kept.object)
	case c.allNodes.missing():
		tx.SetClusterPolicy(policy.WithoutNodes(kept.object))
	}
}

// nodeAddrs returns the IPv4 InternalIPs of the nodes seen.
func (c *Controller) nodeAddrs() []netip.Addr {
	var addrs []netip.Addr
	for _, n := range c.nodes.all() {
		addrs = append(addrs, *n...)
	}
	return addrs
}
