// Package switchboard has a listener in memory, for tests that run in a bubble of testing/synctest.
package switchboard

import (
	"context"
	"errors"
	"net"
	"sync"
)

// ErrNobody is what Dial returns when the Switchboard is closed.
var ErrNobody = errors.New("nobody listens")

// Switchboard is a listener and what dials it.
type Switchboard struct {
	calls  chan net.Conn
	closed chan struct{}
	close  func()
}

// New returns a listener that is open.
func New() *Switchboard {
	b := &Switchboard{calls: make(chan net.Conn), closed: make(chan struct{})}
	b.close = sync.OnceFunc(func() { close(b.closed) })
	return b
}

// Accept implements net.Listener.
func (b *Switchboard) Accept() (net.Conn, error) {
	select {
	case conn := <-b.calls:
		return conn, nil
	case <-b.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (b *Switchboard) Close() error {
	b.close()
	return nil
}

// Addr implements net.Listener.
func (b *Switchboard) Addr() net.Addr { return &net.UnixAddr{Name: "switchboard", Net: "unix"} }

// Dial connects. It waits until the listener accepts, as on a named pipe.
func (b *Switchboard) Dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case b.calls <- theirs:
		return ours, nil
	case <-b.closed:
		return nil, ErrNobody
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
