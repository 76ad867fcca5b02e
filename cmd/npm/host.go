package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/hcsadapter"
	"github.com/winnpm/winnpm/pkg/node"
)

// lockName is the same for all versions and all networks: a node has one HNS.
const lockName = "WinNPM"

// host is what the commands on a node use of the system that it runs on.
type host struct {
	// connect returns this node's HNS.
	connect func(hcsadapter.Options) (service, error)
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
	return host{connect: newHNS, lock: lock, listen: debug.Listen, pipe: node.ListenPipe}
}

// service is this node's HNS, with what only the real one tells.
type service interface {
	hns.Client
	Healthy() error                  // non-nil while a call is past its deadline; never waits
	OnlyOf(is func(netip.Addr) bool) // has networks of pods count alone; see hcsadapter.Client
	Close()                          // does not wait for a call in progress
}

// networkPoll is the time between two looks for the network.
const networkPoll = 5 * time.Second

// waitForNetwork returns when the network is there: the CNI creates it with the
// first pod of a node that was just made. The predecessor gave up after 240
// tries, 20 minutes; a node without pods is none the worse for an agent that
// waits, while one that ends comes back with an ever longer backoff.
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
		case errors.Is(err, hcsadapter.ErrMissing):
			return needs("npm start", err)
		case !errors.Is(err, hns.ErrNotFound) && !errors.Is(err, hns.ErrUnavailable) && !errors.Is(err, hns.ErrUnlisted):
			return fmt.Errorf("%s: %w", networkText(network), err)
		case tries == 0:
			logger.Info("waiting for the HNS network", "network", network, "reason", err.Error(), "poll", networkPoll)
		}
		if err := sleep(ctx, networkPoll); err != nil {
			return err
		}
	}
}

// networkText names a network of the configuration, where "" is one that is found.
func networkText(name string) string {
	if name == "" {
		return "HNS network of the pods"
	}
	return fmt.Sprintf("HNS network %q", name)
}

// needs says what a command needs when err is that there is no usable HNS.
func needs(command string, err error) error {
	if errors.Is(err, hcsadapter.ErrMissing) {
		return fmt.Errorf("%s needs Windows Server 2022 or later: %w", command, err) // the system's words end in a dot
	}
	return err
}

// phase is what the agent waits for before it works; "" means that it works.
type phase struct{ waiting atomic.Value }

func (p *phase) set(waiting string) { p.waiting.Store(waiting) }

// get returns what is waited for, nil when nothing is.
func (p *phase) get() error {
	if waiting, _ := p.waiting.Load().(string); waiting != "" {
		return errors.New("waiting for " + waiting)
	}
	return nil
}

// sleep waits, or returns why the context ended.
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

// unlessDone returns err, or nil when ctx is done: an agent that is stopped has not failed.
func unlessDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
