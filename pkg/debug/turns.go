package debug

import (
	"net/http"
	"net/netip"
	"sync"
	"time"
)

const (
	// turnWait is how long a request waits for a place. A page in a browser ends its last
	// request and sends the next one in the same moment, and the server may notice the end
	// after the beginning.
	turnWait = 2 * time.Second
	// waitingOfOne is how many requests of one client wait, and waitingAtOnce of all.
	waitingOfOne  = 2
	waitingAtOnce = 16
)

// turns are places for heavy pages. Each client has few of them, so a client that sends
// many requests at once waits for itself. All clients on this machine are one.
type turns struct {
	most, ofOne int

	mu      sync.Mutex // guards following
	running tally
	waiting tally
	freed   chan struct{} // closed when a place becomes free, and made anew
}

// tally counts requests by client; those without any have no entry.
type tally struct {
	all int
	of  map[netip.Addr]int
}

func (t *tally) add(client netip.Addr, n int) {
	t.all += n
	if t.of[client] += n; t.of[client] == 0 {
		delete(t.of, client)
	}
}

// room reports whether one more of a client is within bounds.
func (t *tally) room(client netip.Addr, most, ofOne int) bool {
	return t.all < most && t.of[client] < ofOne
}

func newTurns(most, ofOne int) *turns {
	return &turns{
		most: most, ofOne: ofOne, freed: make(chan struct{}),
		running: tally{of: map[netip.Addr]int{}}, waiting: tally{of: map[netip.Addr]int{}},
	}
}

// enter takes a place for a request, until leave is called. It waits for one a
// little while, and not when as many wait already or the client goes.
func (t *turns) enter(r *http.Request) (leave func(), ok bool) {
	from, _ := netip.ParseAddrPort(r.RemoteAddr) // all others are one client
	client := from.Addr().Unmap()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running.room(client, t.most, t.ofOne) {
		return t.takeLocked(client), true
	}
	if !t.waiting.room(client, waitingAtOnce, waitingOfOne) {
		return nil, false
	}
	t.waiting.add(client, 1)
	defer t.waiting.add(client, -1)
	patience := time.NewTimer(turnWait)
	defer patience.Stop()
	for !t.running.room(client, t.most, t.ofOne) {
		freed := t.freed
		t.mu.Unlock()
		gone := false
		select {
		case <-freed:
		case <-patience.C:
			gone = true
		case <-r.Context().Done():
			gone = true
		}
		t.mu.Lock()
		if gone {
			return nil, false
		}
	}
	return t.takeLocked(client), true
}

func (t *turns) takeLocked(client netip.Addr) (leave func()) {
	t.running.add(client, 1)
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.running.add(client, -1)
		close(t.freed)
		t.freed = make(chan struct{})
	}
}
