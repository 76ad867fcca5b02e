package debug

import (
	"net/http"
	"time"
)

const (
	// heavyAtOnce is how many heavy pages are answered at the same time, and so the number of
	// dumps in memory. heavyWaiting more requests wait for up to heavyWait. They need to wait
	// because a browser cancels one request and sends the next at the same moment, and the server
	// may see the cancellation last.
	heavyAtOnce  = 2
	heavyWaiting = 2
	heavyWait    = 2 * time.Second
	// openAtOnce is the limit for open pages. It is separate because other machines can request
	// them: a slow client must not delay the pages for this machine.
	openAtOnce  = 8
	lightAtOnce = 32

	maxURLBytes = 8 << 10
	// openWriteTime is the write timeout of open pages. Other pages may be large, and have the
	// write timeout of the server.
	openWriteTime = 30 * time.Second
	retryAfter    = "5" // seconds
)

// limits are the slots that all pages of an endpoint share.
type limits struct {
	heavy, waiting, open, light slots
}

func newLimits() limits {
	return limits{make(slots, heavyAtOnce), make(slots, heavyWaiting), make(slots, openAtOnce), make(slots, lightAtOnce)}
}

// slots limits the requests in progress. It holds one entry for each of them.
type slots chan struct{}

// enter takes a slot if one is free. The caller frees it with leave.
func (s slots) enter(*http.Request) (leave func(), ok bool) {
	select {
	case s <- struct{}{}:
		return func() { <-s }, true
	default:
		return nil, false
	}
}

// enterHeavy takes a slot for a heavy page. The caller frees it with leave. It waits up to
// heavyWait for a free slot, unless heavyWaiting requests are waiting already or the client
// cancels the request.
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

// bound returns the handler of a page that answers only when it gets a slot.
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
