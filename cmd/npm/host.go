package main

import (
	"context"
	"net"

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
	// listen listens at an address of TCP. An error of the system is an
	// os.SyscallError; every other says that the address is none.
	listen func(ctx context.Context, address string) (net.Listener, error)
	// pipe makes the pipe of the CNI plugin; see node.ListenPipe.
	pipe func(path string) (net.Listener, error)
}

func thisHost() host {
	lock := func(ctx context.Context, waiting func(pid int)) (unlock func(), err error) {
		return node.Lock(ctx, lockName, waiting)
	}
	return host{connect: newHNS, lock: lock, listen: listen, pipe: node.ListenPipe}
}
