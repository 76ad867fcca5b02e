package controllers

import (
	"context"
	"net/netip"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/state"
)

// claims are what the CNI told of pods that start, before the API server knows their
// addresses. There is one for each local pod at most: it goes with its pod.
type claims struct {
	mu    sync.Mutex // guards the rest; held for no call
	told  map[desired.PodKey]*podClaim
	asked int           // how often somebody asked whether a pod may start
	shown chan struct{} // closed when a local pod has come or changed
}

// podClaim is what the CNI told of a pod. Its fields are guarded by claims.mu.
type podClaim struct {
	uid     types.UID
	sandbox state.Sandbox
	addr    netip.Addr
	before  netip.Addr // the address in the Pod object when the claim came
	// passed is set once the Pod object has an address of the pod network that differs from before.
	// From then on the agent uses the address of the Pod object.
	passed bool
	end    context.CancelCauseFunc // tells who waits that it counts no more
}

func newClaims() *claims {
	return &claims{told: map[desired.PodKey]*podClaim{}, shown: make(chan struct{})}
}

// on returns a local pod as the dataplane is to know it: with the sandbox that the CNI told of, and
// with its address where the API server does not know that yet.
func (c *claims) on(p *desired.Pod) *desired.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.told[p.Key()]
	if t == nil || t.uid != p.UID {
		return p
	}
	is := *p
	is.HostNetwork, is.Addr = false, ownAddr(p) // containerd calls a CNI only for pods of the pod network
	if is.Sandbox = t.sandbox; !t.passed || p.Addr == t.addr {
		is.Addr, is.Started = t.addr, t.sandbox.Told // of two pods that claim an address the later one has it
	}
	return &is
}

// come takes that a pod starts, and returns its sandbox with the first round of asking, and
// the pods that had its address, as far as the CNI told: they have ended, though the API
// server may not say so yet.
func (c *claims) come(p *desired.Pod, t *podClaim) (is state.Sandbox, ended []desired.PodKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, other := range c.told {
		if other.addr == t.addr && key != p.Key() {
			c.dropLocked(key)
			ended = append(ended, key)
		}
	}
	c.dropLocked(p.Key())
	t.uid, t.before = p.UID, ownAddr(p)
	c.told[p.Key()] = t
	return c.askLocked(t), ended
}

// again takes that somebody asks once more whether a pod may start, and returns its sandbox
// with that round.
func (c *claims) again(t *podClaim) state.Sandbox {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.askLocked(t)
}

func (c *claims) askLocked(t *podClaim) state.Sandbox {
	c.asked++
	t.sandbox.Round = c.asked
	return t.sandbox
}

// giveUp takes that a pod does not start as was told. It reports whether that counted.
func (c *claims) giveUp(key desired.PodKey, t *podClaim) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.told[key] != t {
		return false
	}
	c.dropLocked(key)
	return true
}

func (c *claims) dropLocked(key desired.PodKey) {
	if t := c.told[key]; t != nil {
		t.end(errReplaced)
		delete(c.told, key)
	}
}

// sees takes the state of a local pod, nil when a pod is gone.
func (c *claims) sees(key desired.PodKey, p *desired.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch t := c.told[key]; {
	case t == nil:
	case p == nil, p.UID != t.uid, p.Finished:
		c.dropLocked(key)
	case ownAddr(p).IsValid() && p.Addr != t.before:
		t.passed = true
	}
	if p != nil {
		close(c.shown)
		c.shown = make(chan struct{})
	}
}

// ownAddr returns the pod's address in the pod network according to its Pod object, or the zero
// Addr if it has none. The kubelet clears the address when it recreates the sandbox. For a pod with
// hostNetwork it reports the node's address until the pod has its own.
func ownAddr(p *desired.Pod) netip.Addr {
	if p.HostNetwork {
		return netip.Addr{}
	}
	return p.Addr
}

// next returns what is closed when the next local pod is seen.
func (c *claims) next() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shown
}
