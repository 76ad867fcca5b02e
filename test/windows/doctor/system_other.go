//go:build !windows

package main

import (
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/windows/hnsd"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// thisSystem returns a simulated node.
func thisSystem() system { return simulated(hnsd.New(hnsd.Options{Foreign: hnssim.DefaultForeign()})) }

// simulated returns the HNS of a server. The client is the simulator itself: the adapter is asked
// under Wine.
func simulated(s *hnsd.Server) system {
	return system{s.Call, func(network string) (hns.Client, error) { return s.Network(network), nil }}
}
