//go:build !windows

package debug

import (
	"context"
	"net"
)

// Listen listens at an address.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", address)
}
