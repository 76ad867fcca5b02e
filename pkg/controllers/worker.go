package controllers

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/winnpm/winnpm/pkg/backoff"
	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// work runs the worker. It starts when the first list of each kind is in its store: with a part of
// the cluster, policies would have another meaning.
func (c *Controller) work(ctx context.Context) {
	for _, i := range c.informers {
		select {
		case <-i.synced:
		case <-ctx.Done():
			return
		}
	}
	c.allNodes.await(ctx)
	close(c.synced)
	if c.cfg.RequireNodeAddr && !c.awaitNodeAddr(ctx) {
		return
	}
	c.queue.Add(ObjectKey{Kind: KindRetry}, prompt, time.Time{}) // so that an empty cluster also gets a transaction

	w := worker{
		c:        c,
		pace:     pace{interval: c.cfg.ApplyInterval},
		retry:    time.AfterFunc(backoff.Longest, func() { c.queue.Add(ObjectKey{Kind: KindRetry}, prompt, time.Time{}) }),
		looks:    looks{observer: c.cfg.Observer},
		contests: contests{queue: c.queue},
	}
	if c.cfg.Source.AllNodes != nil {
		w.contests.nodes = c.allNodes
	}
	w.retry.Stop()
	defer w.retry.Stop()
	w.run(ctx)
}

// awaitNodeAddr waits until the Node object has an address. It returns false if ctx ends first.
func (c *Controller) awaitNodeAddr(ctx context.Context) bool {
	addrs := c.nodeAddrs()
	if len(addrs) == 0 {
		c.cfg.Logger.Info("waiting for the Node object to have an InternalIP", "node", c.cfg.Node)
		c.status.update(func(s *status) { s.apply = fmt.Errorf("node %q has no InternalIP yet", c.cfg.Node) })
	}
	for ; len(addrs) == 0; addrs = c.nodeAddrs() { // an address may be gone again
		select {
		case <-c.queue.wake:
		case <-ctx.Done():
			return false
		}
	}
	for _, a := range addrs { // runbooks search for this line
		c.cfg.Logger.Info("node IP is " + a.String())
	}
	return true
}

// worker is the state of the one worker goroutine.
type worker struct {
	c        *Controller
	pending  map[ObjectKey]time.Time // keys that were taken and are not applied yet, with the time of the event, or zero
	events   events                  // events that were applied and are not in HNS yet
	pace     pace
	looks    looks
	contests contests
	warned   map[state.Warning]bool
	retry    *time.Timer // enqueues KindRetry
	tries    int         // transactions that failed as a whole, one after the other

	logged    time.Time // when a transaction was last logged
	converged bool      // whether it had converged
}

// run runs each transaction and look when it is due, until ctx is done. A transaction is due when
// keys wait and HNS has rested. A look is due when no transaction waits, or when transactions have
// delayed it for too long.
func (w *worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		now := time.Now()
		if len(w.contests.rivals) > 0 && now.Sub(w.contests.judged) >= judgeEvery {
			w.contests.enqueueAll()
		}
		keys, most := w.c.queue.Waiting()
		look, transaction := now.Add(judgeEvery), now.Add(judgeEvery)
		if w.looks.began {
			look = w.looks.begins(now, keys > 0)
		}
		if keys > 0 {
			transaction = w.pace.next[most]
		}
		switch {
		case !look.After(now):
			w.look(ctx)
		case !transaction.After(now):
			w.transact(ctx)
		default:
			select {
			case <-ctx.Done():
			case <-w.c.queue.wake:
			case <-time.After(min(look.Sub(now), transaction.Sub(now))):
			}
		}
	}
}

// transact takes all waiting keys and applies one transaction. A panic in it must end the process,
// because the state may be half changed.
func (w *worker) transact(ctx context.Context) {
	c := w.c
	keys := c.queue.Take()
	for key, at := range w.pending {
		if _, again := keys[key]; !again || !at.IsZero() {
			keys[key] = at
		}
	}
	w.pending = keys
	began, endpoints := time.Now(), 0
	w.retry.Stop()
	tx := dataplane.NewTransaction()
	for key := range w.pending {
		w.read(tx, key)
	}
	tx.Yield = func() bool { // called after each endpoint but the last
		endpoints++
		keys, most := c.queue.Waiting()
		return keys > 0 && (most == urgent || time.Since(began) >= w.pace.interval)
	}

	report, err := c.cfg.Applier.ApplyDataplane(ctx, tx)
	w.pace.rest(report.Busy, began, endpoints > 0)
	w.publish(report, err)
	switch {
	case ctx.Err() != nil && err != nil: // shutting down
	case err != nil: // the pending keys stay
		w.tries++
		pause := backoff.Pause(w.tries)
		w.retry.Reset(pause)
		c.cfg.Logger.Error(err, "apply failed", "objects", tx.Len(), "retryAfter", pause)
	default:
		w.tries = 0
		w.pending = nil
		if next := report.Next(); next > 0 {
			w.retry.Reset(next)
		}
	}
	if w.looks.observer != nil {
		w.looks.next, w.looks.at = w.looks.observer.NextLook()
		w.looks.began = true
	}
}

// publish logs the results of a transaction and passes them to OnApplied.
func (w *worker) publish(report state.Report, err error) {
	c, now := w.c, time.Now()
	applied := Applied{Report: report, Err: err}
	for _, e := range report.NewEndpoints { // runbooks search for this line
		c.cfg.Logger.Info(fmt.Sprintf("updating endpoint cache to include %s: %s", e.Addr, e.ID))
	}
	for _, s := range report.Spellings { // docs/operations.md has this line
		c.cfg.Logger.Info("HNS shows in another form what was written", "kind", s.Kind, "object", s.Object, "sent", s.Sent, "shown", s.Shown)
	}
	for _, r := range report.Repairs { // docs/operations.md has this line
		c.cfg.Logger.Info("repaired what somebody else changed in HNS", "kind", r.Kind, "object", r.Object, "pod", r.Pod, "found", r.Found)
	}
	var unready error
	if err != nil {
		unready = fmt.Errorf("the last transaction failed: %w", err)
	} else {
		unready = w.logWarnings(report.Warnings)
		applied.Programmed = w.events.applied(report.Generation, w.pending, report.Waiting, now)
		if w.contests.nodes != nil {
			w.contests.setRivals(report.Rivals)
		}
		if now.Sub(w.logged) >= c.cfg.ApplyInterval || len(report.Errors) > 0 || report.Converged() != w.converged {
			w.logged, w.converged = now, report.Converged()
			c.cfg.Logger.Info("applied", "generation", report.Generation, "objects", report.Objects, "calls", report.Calls,
				"pending", report.Pending, "warnings", len(report.Warnings), "errors", report.Errors, "took", report.Took)
		}
	}
	c.status.update(func(s *status) { s.apply = unready })
	c.cfg.OnApplied(applied)
}

// logWarnings logs each warning when it is raised and when it is cleared. It returns an error if HNS does
// not answer at all. It returns none for a single endpoint that cannot be written: that endpoint
// has a warning of its own, which may last, while other endpoints are written.
func (w *worker) logWarnings(warnings []state.Warning) (away error) {
	active := make(map[state.Warning]bool, len(warnings))
	for _, x := range warnings {
		if active[x] = true; !w.warned[x] {
			w.c.cfg.Logger.Info("warning raised", "kind", x.Kind, "object", x.Object, "reason", x.Reason, "message", x.Message)
		}
		if x.Kind == "Node" && x.Reason == state.ReasonHNSUnavailable {
			away = fmt.Errorf("HNS does not answer: %s %s: %s", x.Kind, x.Object, x.Message)
		}
	}
	for x := range w.warned {
		if !active[x] {
			w.c.cfg.Logger.Info("warning cleared", "kind", x.Kind, "object", x.Object, "reason", x.Reason)
		}
	}
	w.warned = active
	return away
}

// read adds the current state of a key's object to a transaction.
func (w *worker) read(tx *dataplane.Transaction, key ObjectKey) {
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
		// While a node registers again and has no address, the old ones stay in force: without
		// them the probes of its pods would fail.
		if addrs := c.nodeAddrs(); len(addrs) > 0 || !c.cfg.RequireNodeAddr {
			tx.SetNodeAddrs(addrs)
		}
	case KindClusterPolicy:
		c.readCluster(tx, key)
	case KindClusterNode:
		w.contests.judged = time.Time{} // the next step judges all rivals again
		if n := c.allNodes.get(key.ObjectName); n != nil {
			tx.SetNode(n.NodeDump)
		} else {
			tx.DeleteNode(key.Name)
		}
	case KindRetry: // every transaction makes the retries that are due
	}
}

// readPod adds the current state of a pod to a transaction, after the deletion of earlier pods of
// the same name.
func (w *worker) readPod(tx *dataplane.Transaction, key ObjectKey) {
	p := w.c.pods.get(key.ObjectName)
	if finished, _ := w.c.finished.LoadAndDelete(key.ObjectName); finished == true {
		tx.DeleteFinishedPod(desired.PodKey(key.ObjectName))
	} else {
		tx.DeletePod(desired.PodKey(key.ObjectName))
	}
	switch {
	case p == nil:
		return
	case p.Local:
		p = w.c.claims.apply(p)
	case w.contests.rivals[desired.PodKey(key.ObjectName)]:
		p = w.contests.judge(p)
	}
	tx.SharePod(p)
}

// readCluster adds the current state of a ClusterNetworkPolicy to a transaction. While the list of
// nodes is awaited, a policy with nodes as peers is left out, so that its previous version stays in
// force; nodesDecided queues its key again. If the list is late, the rules with nodes close.
func (c *Controller) readCluster(tx *dataplane.Transaction, key ObjectKey) {
	switch kept := c.clusters.get(key.ObjectName); {
	case kept == nil:
		tx.DeleteClusterPolicy(key.Name)
	case !kept.nodes || c.allNodes.known():
		tx.SetClusterPolicy(kept.object)
	case isClosed(c.allNodes.late):
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
