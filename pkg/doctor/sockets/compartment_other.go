//go:build !windows

package sockets

import "syscall"

// What sockets say when somebody answers that there is nobody, and when there is no way.
var (
	saysNo  = []error{syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE}
	nowhere = []error{syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.ETIMEDOUT}
)
