//go:build !windows

package node

import (
	"context"
	"fmt"
	"net"
	"os"
)

func listenPipe(path string) (net.Listener, error) {
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

func dialPipe(ctx context.Context, path string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "unix", path)
}
