package controllers

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
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
	addr, err := addrOfClaim(claim)
	if err != nil {
		return err
	}
	p, err := c.awaitPod(ctx, claim)
	if err != nil {
		return err
	}
	waiting, end := context.WithCancelCause(ctx)
	defer end(nil)
	t := &podClaim{sandbox: sandboxOf(claim, began), addr: addr, end: end}
	sandbox, ended := c.claims.come(p, t)
	for _, other := range ended {
		c.event(keyOfPod(other), prompt)
	}
	if is := c.pods.get(cache.ObjectName{Namespace: claim.Namespace, Name: claim.Name}); is == nil || is.UID != p.UID || is.Finished {
		c.claims.giveUp(p.Key(), t) // it went before the claim came, so no event of it comes any more
	}
	c.event(keyOfPod(p.Key()), urgent)
	err = c.cfg.Readiness.WaitReady(waiting, p.Key(), p.UID, sandbox)
	if err == nil {
		// What came while the rules were written waits in the queue, and may be about this
		// pod. It counts too; what comes from now on does not, as there may always be more.
		sandbox = c.claims.again(t)
		c.event(keyOfPod(p.Key()), urgent)
		err = c.cfg.Readiness.WaitReady(waiting, p.Key(), p.UID, sandbox)
	}
	switch cause := context.Cause(ctx); {
	case err == nil:
		return nil
	case cause == nil && errors.Is(context.Cause(waiting), errReplaced):
		return errReplaced
	case claim.Strict && (errors.Is(cause, gate.ErrHungUp) || errors.Is(cause, gate.ErrLate)):
		if c.claims.giveUp(p.Key(), t) {
			c.event(keyOfPod(p.Key()), prompt)
		}
	}
	return err
}

// awaitPod returns the pod of a claim as soon as everything that was there at the start is
// known, and the watch shows the pod.
func (c *Controller) awaitPod(ctx context.Context, claim gate.Claim) (*desired.Pod, error) {
	select {
	case <-c.synced:
	case <-ctx.Done():
		return nil, errNotSynced
	}
	for {
		next := c.claims.next() // before the look, so that nothing is missed after it
		p := c.pods.get(cache.ObjectName{Namespace: claim.Namespace, Name: claim.Name})
		if p != nil && p.Local && !p.Finished && (string(p.UID) == claim.UID || !isUID(claim.UID)) {
			return p, nil
		}
		select {
		case <-next:
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

// sandboxOf returns the sandbox of a claim that began at a time.
func sandboxOf(claim gate.Claim, began time.Time) state.Sandbox {
	is := state.Sandbox{ID: claim.ContainerID, Told: began}
	if len(claim.Netns) == len("00000000-0000-0000-0000-000000000000") { // else no namespace of HNS
		is.Netns = claim.Netns
	}
	return is
}

// addrOfClaim returns the first IPv4 address of a claim.
func addrOfClaim(claim gate.Claim) (netip.Addr, error) {
	for _, a := range claim.Addresses {
		if a.Is4() {
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("%w: %v", errNoIPv4, claim.Addresses)
}
