//go:build !windows

package node

import (
	"context"
	"fmt"
	"net"
	"os"
)

// ListenPipe replaces a Windows pipe in tests: it creates a socket in the file system.
func ListenPipe(path string) (net.Listener, error) {
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close() // it has no connections yet
		return nil, fmt.Errorf("keep %s from others: %w", path, err)
	}
	return l, nil
}

// DialPipe connects to a socket of ListenPipe.
func DialPipe(ctx context.Context, path string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "unix", path)
}
