package controllers

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/winnpm/winnpm/pkg/desired"
	gate "github.com/winnpm/winnpm/pkg/node"
	"github.com/winnpm/winnpm/pkg/state"
)

// Readiness says when the endpoint of a pod that starts is ready.
type Readiness interface {
	// WaitReady returns nil when the endpoint of a pod's sandbox is as the pod's policies
	// say. When ctx ends before, the error says what was missing.
	WaitReady(ctx context.Context, key desired.PodKey, uid types.UID, sandbox state.Sandbox) error
}

// What a claim may end with, beside what WaitReady says.
var (
	errNotSynced = errors.New("the agent does not know the whole cluster yet")
	errNoPod     = errors.New("the watch of the API server does not show it on this node")
	errNoIPv4    = errors.New("the CNI gave it no IPv4 address")
	errReplaced  = errors.New("it is gone, or the CNI told later of another sandbox of it, or of another pod with its address")
)

var _ gate.Claimer = (*Controller)(nil)

// Claim implements gate.Claimer. The dataplane learns of the pod's address from the claim,
// as the API server learns of it when the plugin has ended. A pod that starts without an
// answer keeps its claim; in mode strict it does not start, and loses it. In mode wait a
// plugin that hangs up may have waited for long enough, so that the pod starts.
func (c *Controller) Claim(ctx context.Context, claim gate.Claim) error {
	began := time.Now()
	i := slices.IndexFunc(claim.Addresses, netip.Addr.Is4)
	if i < 0 {
		return fmt.Errorf("%w: %v", errNoIPv4, claim.Addresses)
	}
	p, err := c.awaitPod(ctx, claim)
	if err != nil {
		return err
	}
	waiting, end := context.WithCancelCause(ctx)
	defer end(nil)
	t := &podClaim{sandbox: state.Sandbox{ID: claim.ContainerID, Told: began}, addr: claim.Addresses[i], end: end}
	if len(claim.Netns) == len("00000000-0000-0000-0000-000000000000") { // else no namespace of HNS
		t.sandbox.Netns = claim.Netns
	}
	c.claims.add(p, t)
	if is := c.pods.get(cache.ObjectName(p.Key())); is == nil || is.UID != p.UID || is.Finished {
		c.claims.giveUp(p.Key(), t) // it went before the claim came, so no event of it comes any more
	}
	// What came while the rules were written waits in the queue, and may be about this pod. So the
	// agent waits twice; what comes from then on does not count, as there may always be more.
	for round := 0; round < 2 && err == nil; round++ {
		sandbox := c.claims.ask(t)
		c.queue.AddEvent(keyOfPod(p.Key()), urgent)
		err = c.cfg.Readiness.WaitReady(waiting, p.Key(), p.UID, sandbox)
	}
	switch cause := context.Cause(ctx); {
	case err == nil:
		return nil
	case cause == nil && errors.Is(context.Cause(waiting), errReplaced):
		return errReplaced
	case claim.Strict && (errors.Is(cause, gate.ErrHungUp) || errors.Is(cause, gate.ErrLate)):
		c.claims.giveUp(p.Key(), t)
	}
	return err
}

// awaitInterval is the time between two looks for a pod of a claim. The watch mostly has shown it before.
const awaitInterval = 20 * time.Millisecond

// awaitPod returns the pod of a claim as soon as everything that was there at the start is
// known, and the watch shows the pod.
func (c *Controller) awaitPod(ctx context.Context, claim gate.Claim) (*desired.Pod, error) {
	select {
	case <-c.synced:
	case <-ctx.Done():
		return nil, errNotSynced
	}
	for {
		p := c.pods.get(cache.ObjectName{Namespace: claim.Namespace, Name: claim.Name})
		if p != nil && p.Local && !p.Finished && (string(p.UID) == claim.UID || !isUID(claim.UID)) {
			return p, nil
		}
		select {
		case <-time.After(awaitInterval):
		case <-ctx.Done():
			return nil, errNoPod
		}
	}
}

// isUID reports whether a runtime's UID of a pod is that of its object. A static pod starts
// without one: the kubelet names it by a hash of its manifest, 32 hexadecimal digits
// (pkg/kubelet/config/common.go of Kubernetes), and its mirror pod, which the API server has, gets
// a UID as all objects do. Then the name decides.
func isUID(uid string) bool {
	return uid != "" && (len(uid) != 32 || strings.Trim(uid, "0123456789abcdef") != "")
}

// claims are what the CNI told of pods that start, before the API server knows their
// addresses. There is one for each local pod at most: it goes with its pod.
type claims struct {
	queue *queue // takes the pods whose claims end

	mu    sync.Mutex // guards the rest
	told  map[desired.PodKey]*podClaim
	asked int // how often the agent waited until a pod may start
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

// add takes the claim of a pod. Pods that had its address have ended, as far as the CNI told, though the API
// server may not say so yet.
func (c *claims) add(p *desired.Pod, t *podClaim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, other := range c.told {
		if other.addr == t.addr || key == p.Key() {
			c.drop(key)
		}
	}
	t.uid, t.before = p.UID, ownAddr(p)
	c.told[p.Key()] = t
}

// ask returns the sandbox of a claim with a new round, which the dataplane is to reach.
func (c *claims) ask(t *podClaim) state.Sandbox {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	t.sandbox.Round = c.asked
	return t.sandbox
}

// giveUp ends a claim, if it still counts.
func (c *claims) giveUp(key desired.PodKey, t *podClaim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.told[key] == t {
		c.drop(key)
	}
}

// drop ends the claim of a pod. The caller holds mu.
func (c *claims) drop(key desired.PodKey) {
	c.told[key].end(errReplaced)
	delete(c.told, key)
	c.queue.AddEvent(keyOfPod(key), prompt)
}

// sees takes the state of a local pod, nil when a pod is gone.
func (c *claims) sees(key desired.PodKey, p *desired.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch t := c.told[key]; {
	case t == nil:
	case p == nil, p.UID != t.uid, p.Finished:
		c.drop(key)
	case ownAddr(p).IsValid() && p.Addr != t.before:
		t.passed = true
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
