//go:build !windows

package node

import (
	"context"
	"fmt"
	"net"
	"os"
)

// ListenPipe stands for a pipe of Windows in tests: it creates a socket in the file system.
func ListenPipe(path string) (net.Listener, error) {
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close() // nobody has it yet
		return nil, fmt.Errorf("keep %s from others: %w", path, err)
	}
	return l, nil
}

// DialPipe connects to what ListenPipe created.
func DialPipe(ctx context.Context, path string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "unix", path)
}
