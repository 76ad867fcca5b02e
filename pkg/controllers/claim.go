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

// Readiness waits until the endpoint of a starting pod is ready.
type Readiness interface {
	// WaitReady returns nil when the endpoint of a pod's sandbox has the rules of the pod's
	// policies. If ctx ends first, the error says what was missing.
	WaitReady(ctx context.Context, key desired.PodKey, uid types.UID, sandbox state.Sandbox) error
}

// The errors of a claim. WaitReady has others.
var (
	errNotSynced = errors.New("the agent does not know the whole cluster yet")
	errNoPod     = errors.New("the watch of the API server does not show it on this node")
	errNoIPv4    = errors.New("the CNI gave it no IPv4 address")
	errReplaced  = errors.New("it is gone, or the CNI told later of another sandbox of it, or of another pod with its address")
)

var _ gate.Claimer = (*Controller)(nil)

// Claim implements gate.Claimer. The dataplane learns the pod's address from the claim, because the
// API server learns it only after the plugin has ended. If the plugin does not wait for the answer,
// the claim remains in mode wait, because the pod may have started. In mode strict the pod does not
// start, and Claim ends the claim.
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
		c.claims.giveUp(p.Key(), t) // the pod went before the claim was added, so no event would end the claim
	}
	// Events that came in while the rules were written wait in the queue and may concern this pod.
	// So the agent waits for two rounds. It does not wait for later events, as there may always be more.
	for round := 0; round < 2 && err == nil; round++ {
		sandbox := c.claims.nextRound(t)
		c.queue.Add(keyOfPod(p.Key()), urgent, time.Now())
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

// awaitInterval is the time between two checks whether the pod of a claim is known. Mostly the
// first check finds it.
const awaitInterval = 20 * time.Millisecond

// awaitPod returns the pod of a claim once the first lists are in the stores and the watch has
// shown the pod.
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

// isUID reports whether the UID that the runtime gives for a pod is the UID of its Pod object. For
// a static pod it is not: the kubelet identifies it by a hash of its manifest, 32 hexadecimal
// digits (pkg/kubelet/config/common.go of Kubernetes), while its mirror pod in the API server has a
// UID like any object. Such a pod is found by its name.
func isUID(uid string) bool {
	return uid != "" && (len(uid) != 32 || strings.Trim(uid, "0123456789abcdef") != "")
}

// claims holds what the CNI plugin said about starting pods, before the API server knows their
// addresses. Each local pod has at most one claim, which ends with the pod.
type claims struct {
	queue *queue // gets the keys of pods whose claims end

	mu     sync.Mutex // guards the rest
	byPod  map[desired.PodKey]*podClaim
	rounds int // the number of rounds of all claims so far
}

// podClaim is what the CNI plugin said about a pod. Its fields are guarded by claims.mu.
type podClaim struct {
	uid     types.UID
	sandbox state.Sandbox
	addr    netip.Addr
	before  netip.Addr // the address in the Pod object when the claim came
	// passed is set once the Pod object has an address of the pod network that differs from before.
	// From then on the agent uses the address of the Pod object.
	passed bool
	end    context.CancelCauseFunc // ends the wait for the pod
}

// apply returns a local pod with its claim applied: with the sandbox that the CNI plugin named, and
// with the address of the claim if the API server does not know it yet.
func (c *claims) apply(p *desired.Pod) *desired.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.byPod[p.Key()]
	if t == nil || t.uid != p.UID {
		return p
	}
	is := *p
	is.HostNetwork, is.Addr = false, ownAddr(p) // containerd calls a CNI only for pods of the pod network
	if is.Sandbox = t.sandbox; !t.passed || p.Addr == t.addr {
		is.Addr, is.Started = t.addr, t.sandbox.Told // if two pods claim an address, the one that started later has it
	}
	return &is
}

// add adds the claim of a pod. It ends the claims of pods that had the address: the CNI reuses an
// address only after its pod has ended, though the API server may not know that yet.
func (c *claims) add(p *desired.Pod, t *podClaim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, other := range c.byPod {
		if other.addr == t.addr || key == p.Key() {
			c.drop(key)
		}
	}
	t.uid, t.before = p.UID, ownAddr(p)
	c.byPod[p.Key()] = t
}

// nextRound starts a new round of a claim. It returns the sandbox with the number of the round, which the
// dataplane must reach.
func (c *claims) nextRound(t *podClaim) state.Sandbox {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rounds++
	t.sandbox.Round = c.rounds
	return t.sandbox
}

// giveUp ends a claim unless another one has replaced it.
func (c *claims) giveUp(key desired.PodKey, t *podClaim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byPod[key] == t {
		c.drop(key)
	}
}

// drop ends the claim of a pod. The caller holds mu.
func (c *claims) drop(key desired.PodKey) {
	c.byPod[key].end(errReplaced)
	delete(c.byPod, key)
	c.queue.Add(keyOfPod(key), prompt, time.Now())
}

// podChanged updates the claim of a local pod after a change of the pod; p is nil if the pod is gone.
func (c *claims) podChanged(key desired.PodKey, p *desired.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch t := c.byPod[key]; {
	case t == nil:
	case p == nil, p.UID != t.uid, p.Finished:
		c.drop(key)
	case ownAddr(p).IsValid() && p.Addr != t.before:
		t.passed = true
	}
}

// ownAddr returns the pod's address in the pod network according to its Pod object, or the zero
// Addr if it has none. The kubelet clears the address when it recreates the sandbox. For a pod with
// hostNetwork, the kubelet reports the node's address until the pod has its own.
func ownAddr(p *desired.Pod) netip.Addr {
	if p.HostNetwork {
		return netip.Addr{}
	}
	return p.Addr
}
