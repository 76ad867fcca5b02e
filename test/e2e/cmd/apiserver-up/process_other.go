//go:build unix && !linux

package main

import "syscall"

// endWithParent keeps a terminal's Ctrl-C from reaching the servers before us.
func endWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
