package debug

import (
	"context"
	"net"
	"syscall"

	"golang.org/x/sys/windows"
)

// soExclusiveAddrUse is SO_EXCLUSIVEADDRUSE of winsock2.h.
const soExclusiveAddrUse = ^windows.SO_REUSEADDR

// Listen listens at an address exclusively. Otherwise a process without rights could
// listen at one address of a port that the agent listens on at all addresses, and answer
// the kubelet's probes.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	lc := net.ListenConfig{Control: func(_, _ string, socket syscall.RawConn) error {
		var failed error
		err := socket.Control(func(handle uintptr) {
			failed = windows.SetsockoptInt(windows.Handle(handle), windows.SOL_SOCKET, soExclusiveAddrUse, 1)
		})
		if err == nil {
			err = failed
		}
		return err
	}}
	return lc.Listen(ctx, "tcp", address)
}
