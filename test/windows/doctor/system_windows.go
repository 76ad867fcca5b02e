package main

import (
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/hcsadapter"
	"github.com/winnpm/winnpm/test/hnstest"
)

// thisSystem returns the HNS of this node, or test/windows/hnsd in its place.
func thisSystem() hnstest.System {
	return hnstest.System{HNS: hnstest.ThisHNS(), Client: func(network string) (hns.Client, error) {
		return hcsadapter.New(hcsadapter.Options{Network: network, Now: time.Now})
	}}
}
