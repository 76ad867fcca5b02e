package main

import (
	"github.com/winnpm/winnpm/pkg/hns/hcsadapter"
	"github.com/winnpm/winnpm/test/windows/rawhns"
)

// thisSystem returns the HNS of this node, or test/windows/hnsd in its place.
func thisSystem() system {
	return system{rawhns.New(), func(o hcsadapter.Options) (client, error) { return hcsadapter.New(o) }}
}
