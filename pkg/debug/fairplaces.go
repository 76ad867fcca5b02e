package debug

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/winnpm/winnpm/pkg/debug/places"
)

const (
	// placeWait is how long a request waits for a place. A page in a browser ends its last
	// request and sends the next one in the same moment, and the server may notice the end
	// after the beginning.
	placeWait = 2 * time.Second
	// waitingOfOne is how many requests of one client wait, and waitingAtOnce of all.
	waitingOfOne  = 2
	waitingAtOnce = 16
)

// fairPlaces are places for heavy pages, and for requests that wait for one. All
// clients on this machine are one.
type fairPlaces struct {
	mu      sync.Mutex // guards following
	running *places.Places[netip.Addr]
	waiting *places.Places[netip.Addr]
	freed   chan struct{} // closed when a place becomes free, and made anew
}

func newFairPlaces(most, ofOne int) *fairPlaces {
	return &fairPlaces{
		freed:   make(chan struct{}),
		running: places.New[netip.Addr](most, ofOne),
		waiting: places.New[netip.Addr](waitingAtOnce, waitingOfOne),
	}
}

// enter takes a place for a request, until leave is called. It waits for one a
// little while, and not when as many wait already or the client goes.
func (p *fairPlaces) enter(r *http.Request) (leave func(), ok bool) {
	from, _ := netip.ParseAddrPort(r.RemoteAddr) // all others are one client
	client := from.Addr().Unmap()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running.Take(client) {
		return func() { p.leave(client) }, true
	}
	if !p.waiting.Take(client) {
		return nil, false
	}
	defer p.waiting.Free(client)
	patience := time.NewTimer(placeWait)
	defer patience.Stop()
	for !p.running.Take(client) {
		freed := p.freed
		p.mu.Unlock()
		gone := false
		select {
		case <-freed:
		case <-patience.C:
			gone = true
		case <-r.Context().Done():
			gone = true
		}
		p.mu.Lock()
		if gone {
			return nil, false
		}
	}
	return func() { p.leave(client) }, true
}

// leave gives a place back and wakes those that wait for one.
func (p *fairPlaces) leave(client netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running.Free(client)
	close(p.freed)
	p.freed = make(chan struct{})
}
