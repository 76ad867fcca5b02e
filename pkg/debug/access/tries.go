package access

import (
	"net/netip"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/winnpm/winnpm/pkg/debug/places"
)

const (
	// tryBurst is how many reviews in a row an address may cost that come to
	// nothing: a token that nobody knows, a page that its user may not see, no
	// answer. Each tryEvery it has one more. So a flood costs the API server ten a
	// minute, and a scraper with a wrong token, every 15 s, is told so each time.
	tryBurst = 10
	tryEvery = 6 * time.Second
	// mostAddresses is how many are kept; who is forgotten begins anew.
	mostAddresses = 4096
)

// tries are the reviews that addresses may still cost. The zero value is of no
// use.
type tries struct {
	mu sync.Mutex // one change at a time
	// full is when an address has tryBurst again; one that has is not kept.
	full *cache.LRUExpireCache
}

func newTries() *tries { return &tries{full: cache.NewLRUExpireCache(mostAddresses)} }

// take takes one try of a client, if it has one.
func (t *tries) take(client netip.Prefix) bool { return t.move(client, tryEvery) }

// back returns a try that came to something.
func (t *tries) back(client netip.Prefix) { t.move(client, -tryEvery) }

func (t *tries) move(client netip.Prefix, by time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	full := now
	if kept, ok := t.full.Get(client); ok {
		full = kept.(time.Time)
	}
	full = full.Add(by)
	left := full.Sub(now)
	if left > tryBurst*tryEvery {
		return false
	}
	t.full.Add(client, full, left)
	return true
}

// clientOf returns who asks, by what net/http knows of it: an IPv4 address, or an
// IPv6 network, of which anybody has all addresses. All others are one client.
func clientOf(remote string) netip.Prefix {
	from, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	addr := from.Addr().Unmap().WithZone("")
	bits := 64
	if addr.Is4() {
		bits = 32
	}
	client, _ := addr.Prefix(bits) // the address has as many
	return client
}

// asking are the requests that ask the API server.
type asking struct {
	mu     sync.Mutex // guards following
	places *places.Places[netip.Prefix]
}

func newAsking() *asking { return &asking{places: places.New[netip.Prefix](atOnce, atOnceOfOne)} }

// enter takes a place if there is one, until leave is called.
func (a *asking) enter(client netip.Prefix) (leave func(), ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.places.Take(client) {
		return nil, false
	}
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.places.Free(client)
	}, true
}
