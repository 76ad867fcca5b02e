package debug

import (
	"net/http"
	"time"
)

const (
	// heavyAtOnce is how many heavy pages are answered at the same time: as many
	// dumps may be in memory. heavyWaiting more requests wait for heavyWait: a page in a
	// browser ends its last request and sends the next one in the same moment, and the
	// server may notice the end after the beginning.
	heavyAtOnce  = 2
	heavyWaiting = 2
	heavyWait    = 2 * time.Second
	// openAtOnce are for other machines too, so they have places of their own:
	// who reads metrics slowly keeps nobody from the pages of this machine.
	openAtOnce  = 8
	lightAtOnce = 32

	maxURLBytes = 8 << 10
	// openWriteTime is what an open page may take. The others may be large, and
	// have the server's time.
	openWriteTime = 30 * time.Second
	retryAfter    = "5" // seconds
)

// limits are what all pages of an endpoint share.
type limits struct {
	heavy, waiting, open, light slots
}

func newLimits() limits {
	return limits{make(slots, heavyAtOnce), make(slots, heavyWaiting), make(slots, openAtOnce), make(slots, lightAtOnce)}
}

// slots are places for requests in progress; it holds one entry for each.
type slots chan struct{}

// enter takes a place if there is one, until leave is called.
func (s slots) enter(*http.Request) (leave func(), ok bool) {
	select {
	case s <- struct{}{}:
		return func() { <-s }, true
	default:
		return nil, false
	}
}

// enterHeavy takes a place for a heavy page, until leave is called. It waits for one for
// heavyWait, unless heavyWaiting requests wait already or the client goes.
func (l limits) enterHeavy(r *http.Request) (leave func(), ok bool) {
	if leave, ok = l.heavy.enter(r); ok {
		return leave, true
	}
	stop, ok := l.waiting.enter(r)
	if !ok {
		return nil, false
	}
	defer stop()
	patience := time.NewTimer(heavyWait)
	defer patience.Stop()
	select {
	case l.heavy <- struct{}{}:
		return func() { <-l.heavy }, true
	case <-patience.C:
	case <-r.Context().Done():
	}
	return nil, false
}

// bound lets a page answer when it has a place.
func (l limits) bound(page Page) http.Handler {
	enter := l.light.enter
	switch {
	case page.vital:
		return page.Handler
	case page.Heavy:
		enter = l.enterHeavy
	case page.Open:
		enter = l.open.enter
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leave, ok := enter(r)
		if !ok {
			w.Header().Set("Retry-After", retryAfter)
			http.Error(w, "as many requests for such pages as are allowed are in progress; ask again later", http.StatusServiceUnavailable)
			return
		}
		defer leave()
		if page.Open {
			// An error says that there is no connection that could be slow.
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(openWriteTime))
		}
		page.Handler.ServeHTTP(w, r)
	})
}

// small refuses requests that no page needs: those with a body, and those with
// a long URL. How long a header may be is the server's to say.
func small(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case len(r.RequestURI) > maxURLBytes:
			http.Error(w, "the URL is too long", http.StatusRequestURITooLong)
		case r.ContentLength != 0: // -1 where it is not told
			w.Header().Set("Connection", "close")
			http.Error(w, "no page takes a body", http.StatusRequestEntityTooLarge)
		default:
			next.ServeHTTP(w, r)
		}
	})
}
