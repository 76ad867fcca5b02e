//go:build !linux

package e2e

import "syscall"

// endWithParent does nothing: only Linux tells a process of its parent's end.
func endWithParent() *syscall.SysProcAttr { return nil }
