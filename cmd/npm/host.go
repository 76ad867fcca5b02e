package main

import (
	"context"
	"net"

	"github.com/winnpm/winnpm/pkg/debug"
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
	lock func(ctx context.Context, waiting func(pid int)) (unlock func(), err error)
	// listen listens at an address; see debug.Listener.
	listen func(ctx context.Context, address string) (net.Listener, error)
	// pipe makes the pipe of the CNI plugin; see node.ListenPipe.
	pipe func(path string) (net.Listener, error)
}

func thisHost() host {
	lock := func(ctx context.Context, waiting func(pid int)) (unlock func(), err error) {
		return node.Lock(ctx, lockName, waiting)
	}
	return host{connect: newHNS, lock: lock, listen: debug.Listen, pipe: node.ListenPipe}
}
