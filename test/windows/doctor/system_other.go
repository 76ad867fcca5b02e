//go:build !windows

package main

import (
	"context"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/windows/hnsd"
	"github.com/winnpm/winnpm/test/windows/rawhns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// thisSystem returns a simulated node.
func thisSystem() system { return simulated(hnsd.New(hnsd.Options{Foreign: hnssim.DefaultForeign()})) }

// simulated returns the HNS of a server, which no DLL is in front of.
func simulated(s *hnsd.Server) system {
	call := func(export, id string, handle uint64, texts ...string) (rawhns.Answer, error) {
		d, err := s.Call(context.Background(), export, id, handle, texts...)
		return rawhns.Answer{Code: d.HResult, Record: d.Record, Output: d.Output, Handle: d.Handle}, err
	}
	return system{call, func(network string) (hns.Client, error) { return s.SimOf(network), nil }}
}
