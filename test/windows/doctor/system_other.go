//go:build !windows

package main

import (
	"github.com/winnpm/winnpm/pkg/hns/hcsadapter"
	"github.com/winnpm/winnpm/test/windows/hnsd"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// thisSystem returns a simulated node.
func thisSystem() system { return simulated(hnsd.New(hnsd.Options{Foreign: hnssim.DefaultForeign()})) }

// simulated returns the HNS of a server, which no DLL is in front of.
func simulated(s *hnsd.Server) system {
	return system{s.Call, func(o hcsadapter.Options) (hcsadapter.Client, error) {
		return hcsadapter.Over(o, func(export string, a hcsadapter.Arguments) (hcsadapter.Outcome, error) {
			d, err := s.Call(export, a.ID, a.Handle, a.Texts...)
			return hcsadapter.Outcome{HResult: d.Code, Record: d.Record, Output: d.Output, Handle: d.Handle}, err
		}), nil
	}}
}
