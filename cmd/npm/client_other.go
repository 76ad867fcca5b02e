package main

import (
	"fmt"
	"runtime"

	"github.com/winnpm/winnpm/pkg/hns"
)

// newHNS connects to the Host Networking Service of this system.
func newHNS() (hns.Client, error) {
	return nil, fmt.Errorf("no Host Networking Service on %s: npm start programs Windows nodes; npm simulate runs everywhere", runtime.GOOS)
}
