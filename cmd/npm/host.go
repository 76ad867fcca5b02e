package main

import (
	"context"
	"time"

	"github.com/winnpm/winnpm/pkg/hns/hcsadapter"
	"github.com/winnpm/winnpm/pkg/nodelock"
)

// lockName is the same for all versions and all networks: a node has one HNS.
const lockName = "WinNPM"

// host is what npm start uses of the system that it runs on.
type host struct {
	// connect returns this node's HNS.
	connect func(hcsadapter.Options) (service, error)
	// lock keeps every other agent of the node out; see nodelock.Lock.
	lock func(ctx context.Context, waiting func()) (unlock func(), err error)
	// hnsPID returns the process id of the service behind HNS, 0 while it does
	// not run.
	hnsPID func() (uint32, error)
	// pidPoll is the time between two looks at it.
	pidPoll time.Duration
}

func thisHost() host {
	return host{connect: newHNS, lock: nodelock.New(lockName).Lock, hnsPID: hnsPID, pidPoll: pidPoll}
}
