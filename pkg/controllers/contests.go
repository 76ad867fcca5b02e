package controllers

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/winnpm/winnpm/pkg/desired"
)

const (
	// lostAfter is how long a node must be not ready before the claims of its pods give way.
	lostAfter = time.Minute
	// contestsLinger is how long the agent keeps watching the nodes after the last contest, because
	// the next contest often follows soon.
	contestsLinger = 10 * time.Minute
)

// nodeHealth is the part of a Node that decides contested addresses.
type nodeHealth struct {
	name     string
	cidrs    []netip.Prefix
	notReady time.Time // when the node became not ready; zero if it is ready or has no such condition
}

func (n *nodeHealth) same(o *nodeHealth) bool {
	return slices.Equal(n.cidrs, o.cidrs) && n.notReady.Equal(o.notReady)
}

func keptNodeHealth() kept[*nodeHealth] {
	return kept[*nodeHealth]{
		kind: KindClusterNode,
		of: func(obj any) (*nodeHealth, bool) {
			switch o := obj.(type) {
			case *corev1.Node:
				return healthOf(o), true
			case *nodeHealth:
				return o, true
			}
			return nil, false
		},
		nameOf: func(n *nodeHealth) cache.ObjectName { return cache.ObjectName{Name: n.name} },
		same:   (*nodeHealth).same,
	}
}

func healthOf(o *corev1.Node) *nodeHealth {
	n := &nodeHealth{name: o.Name}
	for _, c := range o.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			n.notReady = c.LastTransitionTime.Time
		}
	}
	for _, text := range append([]string{o.Spec.PodCIDR}, o.Spec.PodCIDRs...) {
		if cidr, err := netip.ParsePrefix(text); err == nil && cidr.Addr().Is4() && !slices.Contains(n.cidrs, cidr) && len(n.cidrs) < maxNodeAddrs {
			n.cidrs = append(n.cidrs, cidr)
		}
	}
	return n
}

// trust returns how the node affects the claim of one of its pods to an address: desired.Inside,
// desired.Outside, desired.Lost or 0. The duration is the time until the result may change without
// an event; 0 means that only an event changes it.
func (n *nodeHealth) trust(addr netip.Addr, now time.Time) (int8, time.Duration) {
	var changes time.Duration
	if !n.notReady.IsZero() {
		if changes = n.notReady.Add(lostAfter).Sub(now); changes <= 0 {
			return desired.Lost, 0
		}
	}
	switch {
	case len(n.cidrs) == 0:
		return 0, changes
	case slices.ContainsFunc(n.cidrs, func(c netip.Prefix) bool { return c.Contains(addr) }):
		return desired.Inside, changes
	}
	return desired.Outside, changes
}

// contests decides which of several pods of other nodes has an address, by the state of their Node
// objects. It judges only pods that have a rival, and watches the nodes only while there are such
// pods and for contestsLinger afterwards.
type contests struct {
	nodes *nodeWatch[*nodeHealth] // nil if JudgeContests is off: no pod is judged
	queue *queue

	mu     sync.Mutex // guards the fields below
	rivals map[desired.PodKey]bool
	linger *time.Timer // ends the watch; nil before the first contest ends and during the next one

	judging *time.Timer // judges the rivals again at judgeAt; nil if that was never needed
	judgeAt time.Time
}

// contested is the name under which contests asks nodeWatch for the nodes.
const contested = "contested addresses"

func newContests(cfg Config, q *queue) *contests {
	c := &contests{queue: q, rivals: map[desired.PodKey]bool{}}
	if cfg.JudgeContests && cfg.Source.AllNodes != nil {
		c.nodes = newNodeWatch(cfg.Source.AllNodes, keptNodeHealth(), cfg.Logger, func(Key) { c.changed() }, func(nodesState, []string) { c.again() })
	}
	return c
}

func (c *contests) run(ctx context.Context) {
	if c.nodes != nil {
		c.nodes.run(ctx)
	}
}

// changed judges all rivals again after a Node event. It does nothing before the first list of
// nodes is complete: nodeWatch then calls again itself.
func (c *contests) changed() {
	if c.nodes.known() {
		c.again()
	}
}

// again enqueues every rival, so that the worker judges it again.
func (c *contests) again() {
	c.mu.Lock()
	var keys []desired.PodKey
	for key := range c.rivals {
		keys = append(keys, key)
	}
	c.mu.Unlock()
	for _, key := range keys {
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
	had := len(c.rivals) > 0
	c.rivals = is
	begins, ends := len(is) > 0 && !had, len(is) == 0 && had
	if c.linger != nil && begins {
		c.linger.Stop()
		c.linger = nil
	}
	if ends {
		c.linger = time.AfterFunc(contestsLinger, c.stopWatching)
	}
	c.mu.Unlock()
	if begins {
		c.nodes.want(contested, true)
	}
	for _, key := range changed {
		c.queue.Add(Key{Kind: KindPod, Namespace: key.Namespace, Name: key.Name})
	}
}

// stopWatching ends the watch of the nodes, unless there are rivals again.
func (c *contests) stopWatching() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.rivals) == 0 {
		c.nodes.want(contested, false)
	}
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
	trust := int8(desired.Lost)
	if n, ok := c.nodes.get(p.Node); ok {
		var changes time.Duration
		if trust, changes = n.trust(p.Addr, time.Now()); changes > 0 {
			c.judgeAfter(min(changes, lostAfter)) // a kubelet may report a time in the future
		}
	}
	is := *p
	is.Trust = trust
	return &is
}

// judgeAfter schedules another judgment of all rivals after wait. An earlier one that is already
// scheduled stays.
func (c *contests) judgeAfter(wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := time.Now().Add(wait)
	if c.judging != nil && c.judgeAt.After(time.Now()) && !c.judgeAt.After(at) {
		return
	}
	if c.judging != nil {
		c.judging.Stop()
	}
	c.judgeAt, c.judging = at, time.AfterFunc(wait, c.again)
}
