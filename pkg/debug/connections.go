package debug

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
)

// connectionsAtOnce is for each listener.
const connectionsAtOnce = 128

// crowd is a listener that keeps its connections to a number. When one more
// comes, one gives way on which no page is being answered: the oldest of the
// client that has most of them. So who holds connections open, or sends headers
// slowly, is in nobody's way, the kubelet's least of all; a listener that let
// new ones wait would be.
type crowd struct {
	net.Listener
	most int

	mu    sync.Mutex // guards following
	conns []*conn    // the one that was idle longest first, but for those busy
}

// conn is a connection of a crowd.
type conn struct {
	net.Conn
	crowd *crowd
	from  netip.Addr
	busy  bool // a page is being answered; guarded by crowd.mu
}

// Accept implements net.Listener.
func (c *crowd) Accept() (net.Conn, error) {
	inner, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	from, _ := netip.ParseAddrPort(inner.RemoteAddr().String()) // all others are one client
	joined := &conn{Conn: inner, crowd: c, from: from.Addr()}
	if leaves := c.add(joined); leaves != nil {
		_ = leaves.Close() // its reader sees it
	}
	return joined, nil
}

// add returns which connection gives way for a new one, and that may be the new one.
func (c *crowd) add(joined *conn) *conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns = append(c.conns, joined)
	if len(c.conns) <= c.most {
		return nil
	}
	has := map[netip.Addr]int{}
	for _, other := range c.conns {
		has[other.from]++
	}
	var leaves *conn
	for _, other := range c.conns {
		if !other.busy && (leaves == nil || has[other.from] > has[leaves.from]) {
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

// removeLocked reports whether one was there. c.mu must be held.
func (c *crowd) removeLocked(one *conn) bool {
	i := slices.Index(c.conns, one)
	if i >= 0 {
		c.conns = slices.Delete(c.conns, i, i+1)
	}
	return i >= 0
}

// setBusy says whether a page is being answered on a connection, which has not
// been idle since then.
func (c *conn) setBusy(busy bool) {
	c.crowd.mu.Lock()
	defer c.crowd.mu.Unlock()
	c.busy = busy
	if c.crowd.removeLocked(c) {
		c.crowd.conns = append(c.crowd.conns, c)
	}
}

// connKey is where a request's context has its conn.
type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	if encrypted, ok := c.(*tls.Conn); ok {
		c = encrypted.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// busy marks the connections of requests while next answers them.
func busy(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*conn); ok {
			c.setBusy(true)
			defer c.setBusy(false)
		}
		next.ServeHTTP(w, r)
	})
}
