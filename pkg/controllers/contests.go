package controllers

import (
	"net/netip"
	"slices"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/winnpm/winnpm/pkg/desired"
)

const (
	// lostAfter is how long a node must be not ready before the claims of its pods give way.
	lostAfter = time.Minute
	// judgeEvery is the time between two judgments of all rivals without an event.
	judgeEvery = 30 * time.Second
)

// contests decides which of several pods of other nodes has an address, by the state of their Node
// objects. It judges only pods that have a rival, and needs the nodes only from the first such pod on.
type contests struct {
	nodes  *nodeWatch // nil if JudgeContests is off: no pod is judged
	queue  *queue
	rivals map[desired.PodKey]bool
	judged time.Time // when all rivals were enqueued the last time; zero after a node changed
}

// setRivals replaces the pods that contest an address, as state.Report lists them after a
// transaction. It enqueues the pods that were added and removed, so that they are judged again.
func (c *contests) setRivals(rivals [][2]string) {
	is := map[desired.PodKey]bool{}
	for _, r := range rivals {
		key := desired.PodKey{Namespace: r[0], Name: r[1]}
		if is[key] = true; !c.rivals[key] {
			c.queue.Add(keyOfPod(key))
		}
	}
	for key := range c.rivals {
		if !is[key] {
			c.queue.Add(keyOfPod(key))
		}
	}
	if c.rivals = is; len(is) > 0 {
		c.nodes.need()
	}
}

// again enqueues all rivals, so that they are judged again.
func (c *contests) again() {
	c.judged = time.Now()
	for key := range c.rivals {
		c.queue.Add(keyOfPod(key))
	}
}

// judge returns a copy of a rival of another node with Trust set. While the nodes are unknown or cannot be read, it
// returns the pod itself, so no claim gives way.
func (c *contests) judge(p *desired.Pod) *desired.Pod {
	if p.Node == "" || !c.nodes.known() || c.nodes.informer.problem() != nil {
		return p
	}
	is := *p
	is.Trust = desired.Lost
	if n := c.nodes.get(cache.ObjectName{Name: p.Node}); n != nil {
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
