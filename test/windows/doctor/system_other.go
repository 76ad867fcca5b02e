//go:build !windows

package main

import (
	"github.com/winnpm/winnpm/test/hnstest"
	"github.com/winnpm/winnpm/test/windows/hnsd"
	"github.com/winnpm/winnpm/tool/hnssim"
)

func facts() string { return "the simulator" }

// thisSystem returns a simulated node.
func thisSystem() hnstest.System {
	return hnsd.New(hnsd.Options{Foreign: hnssim.DefaultForeign()}).System()
}
