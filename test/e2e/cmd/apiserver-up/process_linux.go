package main

import "syscall"

// endWithParent keeps a terminal's Ctrl-C from reaching the servers before us,
// and makes the kernel end them when we are killed.
func endWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
