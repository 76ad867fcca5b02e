//go:build !windows

package main

import (
	"fmt"
	"runtime"
	"time"

	"github.com/winnpm/winnpm/pkg/doctor"
	"github.com/winnpm/winnpm/pkg/hns/hcsadapter"
)

// newHNS connects to the Host Networking Service of this system.
func newHNS(hcsadapter.Options) (service, error) {
	return nil, errNoHNS()
}

// newRaw makes single calls of the Host Networking Service of this system.
func newRaw(time.Duration) (rawHNS, error) { return nil, errNoHNS() }

// newWire returns nil: there are no endpoints here.
func newWire() doctor.Wire { return nil }

// newRestarter returns nil: there is nothing to restart.
func newRestarter() doctor.Service { return nil }

func errNoHNS() error {
	return fmt.Errorf("this build cannot reach a Host Networking Service on %s; npm simulate runs everywhere", runtime.GOOS)
}

// hnsPID returns 0: there is no HNS here.
func hnsPID() (uint32, error) { return 0, nil }
