package debug

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
)

const (
	// connectionsAtOnce bounds the connections of a listener, connectionsOfOne those of one client
	// address.
	connectionsAtOnce = 128
	connectionsOfOne  = 8
	// requestsOfOne is the number of requests after which the server closes a connection.
	requestsOfOne = 100
)

// crowd is a listener that bounds the number of its connections, in total and per client
// address. When a new connection exceeds a bound, crowd closes the connection that has been idle
// longest: one of the same client if that client exceeds its own bound, otherwise one of the client
// with the most connections. If no other connection is idle, it closes the new one. So a client that
// holds connections open, sends headers slowly or sends requests without a pause delays no other
// client.
type crowd struct {
	net.Listener
	most, ofOne int

	mu    sync.Mutex // guards conns and conn.busy
	conns []*conn    // idle connections are in the order of their idle time, longest first
}

func newCrowd(l net.Listener) *crowd {
	return &crowd{Listener: l, most: connectionsAtOnce, ofOne: connectionsOfOne}
}

// conn is a connection of a crowd.
type conn struct {
	net.Conn
	crowd *crowd
	from  netip.Addr
	busy  bool // a page is being answered; guarded by crowd.mu

	requests int // number of requests so far; only the connection's own goroutine uses it
}

// Accept implements net.Listener.
func (c *crowd) Accept() (net.Conn, error) {
	inner, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	from, _ := netip.ParseAddrPort(inner.RemoteAddr().String()) // clients with unparsable addresses count as one
	joined := &conn{Conn: inner, crowd: c, from: from.Addr().Unmap()}
	if leaves := c.add(joined); leaves != nil {
		_ = leaves.Close() // its reader sees it
	}
	return joined, nil
}

// add adds a new connection. It returns the connection to close, which may be the new one, or nil.
func (c *crowd) add(joined *conn) *conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns = append(c.conns, joined)
	has := map[netip.Addr]int{}
	for _, other := range c.conns {
		has[other.from]++
	}
	ownBound := has[joined.from] > c.ofOne
	if !ownBound && len(c.conns) <= c.most {
		return nil
	}
	var leaves *conn // never nil after the loop: joined is not busy
	for _, other := range c.conns {
		if !other.busy && (!ownBound || other.from == joined.from) && (leaves == nil || has[other.from] > has[leaves.from]) {
			leaves = other
		}
	}
	return leaves
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.crowd.mu.Lock()
	c.crowd.removeLocked(c)
	c.crowd.mu.Unlock()
	return c.Conn.Close()
}

// removeLocked removes a connection and reports whether it was there. c.mu must be held.
func (c *crowd) removeLocked(one *conn) bool {
	i := slices.Index(c.conns, one)
	if i >= 0 {
		c.conns = slices.Delete(c.conns, i, i+1)
	}
	return i >= 0
}

// setBusy records whether a page is being answered on the connection. Its idle time starts again.
func (c *conn) setBusy(busy bool) {
	c.crowd.mu.Lock()
	defer c.crowd.mu.Unlock()
	c.busy = busy
	if c.crowd.removeLocked(c) {
		c.crowd.conns = append(c.crowd.conns, c)
	}
}

// connKey is the key of the conn in a request's context.
type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// busy marks the connection of a request as busy while next answers it. After requestsOfOne
// requests it makes the server close the connection.
func busy(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*conn); ok {
			if c.requests++; c.requests >= requestsOfOne {
				w.Header().Set("Connection", "close")
			}
			c.setBusy(true)
			defer c.setBusy(false)
		}
		next.ServeHTTP(w, r)
	})
}
