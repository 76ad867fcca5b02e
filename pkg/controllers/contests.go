package controllers

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/winnpm/winnpm/pkg/desired"
)

const (
	// lostAfter is how long a node must be not ready before the claims of its pods give way.
	lostAfter = time.Minute
	// judgeEvery is the time between two judgments of all rivals without an event.
	judgeEvery = 30 * time.Second
	// contestsLinger is how long the agent keeps watching the nodes after the last contest, because
	// the next contest often follows soon.
	contestsLinger = 10 * time.Minute
)

// contests decides which of several pods of other nodes has an address, by the state of their Node
// objects. It judges only pods that have a rival, and needs the nodes only while there are such
// pods and for contestsLinger afterwards.
type contests struct {
	nodes *nodeWatch // nil if JudgeContests is off: no pod is judged
	queue *queue

	mu     sync.Mutex // guards the fields below
	rivals map[desired.PodKey]bool
	ended  time.Time // when the last contest ended; zero if no watch lingers
}

// run judges the rivals again while time passes, until ctx is done.
func (c *contests) run(ctx context.Context) {
	for c.nodes != nil {
		select {
		case <-ctx.Done():
			return
		case <-time.After(judgeEvery):
		}
		c.mu.Lock()
		over := !c.ended.IsZero() && time.Since(c.ended) >= contestsLinger
		if over {
			c.ended = time.Time{}
			c.nodes.judge(false)
		}
		c.mu.Unlock()
		c.again()
	}
}

// again enqueues every rival, so that the worker judges it again. It does nothing while the nodes
// are unknown: no claim gives way then.
func (c *contests) again() {
	if c.nodes == nil || !c.nodes.known() {
		return
	}
	c.mu.Lock()
	keys := slices.Collect(maps.Keys(c.rivals))
	c.mu.Unlock()
	c.enqueue(keys)
}

func (c *contests) enqueue(pods []desired.PodKey) {
	for _, key := range pods {
		c.queue.Add(Key{Kind: KindPod, Namespace: key.Namespace, Name: key.Name})
	}
}

// setRivals replaces the pods that contest an address, as state.Report lists them after a
// transaction. It enqueues the pods that were added and removed, so that the worker judges them again.
func (c *contests) setRivals(rivals [][2]string) {
	if c.nodes == nil {
		return
	}
	is := map[desired.PodKey]bool{}
	for _, r := range rivals {
		is[desired.PodKey{Namespace: r[0], Name: r[1]}] = true
	}
	c.mu.Lock()
	var changed []desired.PodKey
	for key := range is {
		if !c.rivals[key] {
			changed = append(changed, key)
		}
	}
	for key := range c.rivals {
		if !is[key] {
			changed = append(changed, key)
		}
	}
	switch {
	case len(is) > 0:
		c.ended = time.Time{}
		c.nodes.judge(true)
	case len(c.rivals) > 0:
		c.ended = time.Now()
	}
	c.rivals = is
	c.mu.Unlock()
	c.enqueue(changed)
}

// judged returns a copy of the pod with Trust set, or the pod itself if it has no rival. While the
// nodes are unknown or cannot be read, it returns the pod itself, so no claim gives way.
func (c *contests) judged(p *desired.Pod) *desired.Pod {
	if c.nodes == nil || p.Local || p.Node == "" {
		return p
	}
	c.mu.Lock()
	rival := c.rivals[p.Key()]
	c.mu.Unlock()
	if !rival || !c.nodes.known() {
		return p
	}
	is := *p
	is.Trust = desired.Lost
	if n, ok := c.nodes.get(p.Node); ok {
		is.Trust = n.trust(p.Addr, time.Now())
	}
	return &is
}

// trust returns how the node affects the claim of one of its pods to an address: desired.Inside,
// desired.Outside, desired.Lost or 0.
func (n *clusterNode) trust(addr netip.Addr, now time.Time) int8 {
	switch {
	case !n.notReady.IsZero() && now.Sub(n.notReady) >= lostAfter:
		return desired.Lost
	case len(n.cidrs) == 0:
		return 0
	case slices.ContainsFunc(n.cidrs, func(c netip.Prefix) bool { return c.Contains(addr) }):
		return desired.Inside
	}
	return desired.Outside
}
