//go:build !windows

package main

import (
	"fmt"
	"runtime"

	"github.com/winnpm/winnpm/pkg/hns/hcsadapter"
)

// newHNS connects to the Host Networking Service of this system.
func newHNS(hcsadapter.Options) (service, error) {
	return nil, fmt.Errorf("this build cannot reach a Host Networking Service on %s; kubectl npm simulate runs everywhere", runtime.GOOS)
}
