//go:build !windows

package main

import (
	"context"
	"net"
)

// listen listens at an address.
func listen(ctx context.Context, address string) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", address)
}
