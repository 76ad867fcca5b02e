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
	// connectionsAtOnce is for each listener, connectionsOfOne for each address of a client.
	connectionsAtOnce = 128
	connectionsOfOne  = 8
	// requestsOfOne is the number of requests after which the server closes a connection.
	requestsOfOne = 100
)

// crowd is a listener that bounds its connections: all of them, and those of one
// client address. When a new one exceeds a bound, one connection is closed at once,
// on which no page is being answered: the oldest of the client that has the most.
// If all are busy, the new one is closed. So a client that holds connections open,
// sends headers slowly or sends requests without a pause delays no other client.
type crowd struct {
	net.Listener
	most, ofOne int

	mu    sync.Mutex // guards following
	conns []*conn    // the one that was idle longest first, but for those busy
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

	requests int // begun; used by the connection's own goroutine only
}

// Accept implements net.Listener.
func (c *crowd) Accept() (net.Conn, error) {
	inner, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	from, _ := netip.ParseAddrPort(inner.RemoteAddr().String()) // all others are one client
	joined := &conn{Conn: inner, crowd: c, from: from.Addr().Unmap()}
	if leaves := c.add(joined); leaves != nil {
		_ = leaves.Close() // its reader sees it
	}
	return joined, nil
}

// add returns the connection to close for a new one, which may be the new one, or nil.
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
	var leaves *conn // joined at the latest, which is not busy
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
	return context.WithValue(ctx, connKey{}, c)
}

// busy marks the connections of requests while next answers them, and has the server
// close a connection after its last request.
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
