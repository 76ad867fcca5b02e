//go:build !windows

package main

import (
	"runtime"

	"github.com/winnpm/winnpm/pkg/doctor"
)

// nodeFacts says which system this is, which has no HNS.
func nodeFacts() doctor.Node { return doctor.Node{OS: runtime.GOOS} }
