//go:build !windows

package main

import (
	"context"

	"github.com/winnpm/winnpm/pkg/hns/hcsadapter"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/windows/hnsd"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// thisSystem returns a simulated node.
func thisSystem() system { return simulated(hnsd.New(hnsd.Options{Foreign: hnssim.DefaultForeign()})) }

// simulated returns the HNS of a server. The client is the simulator itself: the adapter is asked
// under Wine.
func simulated(s *hnsd.Server) system {
	return system{s.Call, func(o hcsadapter.Options) (client, error) { return onSim{s.Network(o.Network)}, nil }}
}

type onSim struct{ *hnsfault.Sim }

// Version implements client.
func (onSim) Version(context.Context) (hcsadapter.Version, error) {
	return hcsadapter.Version{Major: 15}, nil
}

// Close implements client.
func (onSim) Close() {}
