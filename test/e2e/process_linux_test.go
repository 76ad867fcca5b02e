package e2e

import "syscall"

// endWithParent makes the kernel end an agent whose test process has died: a
// test that runs out of time runs no cleanup.
func endWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
