package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/hcsadapter"
	"github.com/winnpm/winnpm/pkg/node"
)

// lockName is the name of the node's lock. It is the same for all versions and all networks,
// because a node has one HNS.
const lockName = "WinNPM"

// host has the functions of the operating system that the commands use.
type host struct {
	// connect returns this node's HNS.
	connect func(hcsadapter.Options) (hcsadapter.Client, error)
	// lock keeps every other agent of the node out; see node.Lock.
	lock func(ctx context.Context, waiting func()) (unlock func(), err error)
	// listen listens at an address; see debug.Listener.
	listen func(ctx context.Context, address string) (net.Listener, error)
	// pipe makes the pipe of the CNI plugin; see node.ListenPipe.
	pipe func(path string) (net.Listener, error)
}

func thisHost() host {
	lock := func(ctx context.Context, waiting func()) (unlock func(), err error) {
		return node.Lock(ctx, lockName, waiting)
	}
	return host{connect: hcsadapter.New, lock: lock, listen: debug.Listen, pipe: node.ListenPipe}
}

// networkPoll is the time between two attempts to find the network.
const networkPoll = 5 * time.Second

// waitForNetwork returns when the network exists: the CNI creates it with the first pod of a new
// node. The predecessor gave up after 240 tries, 20 minutes. A waiting agent does no harm on a node
// without pods, while an agent that ends is restarted with an ever longer backoff.
func waitForNetwork(ctx context.Context, client hns.Client, network string, logger klog.Logger) error {
	began := time.Now()
	for tries := 0; ; tries++ {
		n, err := client.Network(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			if tries > 0 || network == "" {
				logger.Info("the HNS network is there", "network", n.Name, "waited", time.Since(began))
			}
			return nil
		case tries == 0:
			logger.Info("waiting for the HNS network", "network", network, "reason", err.Error(), "poll", networkPoll)
		}
		if err := sleep(ctx, networkPoll); err != nil {
			return err
		}
	}
}

// networkText describes a network of the configuration. "" is a network that the agent finds
// itself.
func networkText(name string) string {
	if name == "" {
		return "HNS network of the pods"
	}
	return fmt.Sprintf("HNS network %q", name)
}

// phase is what the agent waits for before it works; "" means that it works.
type phase struct{ waiting atomic.Value }

func (p *phase) set(waiting string) { p.waiting.Store(waiting) }

// get returns an error that says what the agent waits for, or nil if it works.
func (p *phase) get() error {
	if waiting, _ := p.waiting.Load().(string); waiting != "" {
		return errors.New("waiting for " + waiting)
	}
	return nil
}

// sleep waits, or returns the cause why the context ended.
func sleep(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// unlessDone returns err, or nil if ctx is done: stopping the agent is not a failure.
func unlessDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
