package debug

import (
	"net/http"
	"time"
)

const (
	// heavyAtOnce is how many heavy pages are answered at the same time, and so the number of
	// dumps in memory.
	heavyAtOnce = 2
	// scrapesAtOnce is the limit for metrics. It is separate because other machines can request
	// them: a slow client must not delay the pages for this machine.
	scrapesAtOnce = 8
	// slotWait is how long a request waits for a slot.
	slotWait = 2 * time.Second

	// scrapeTime is the write timeout of metrics. Other pages may be large, and have the write
	// timeout of the server.
	scrapeTime = 30 * time.Second
	retryAfter = "5" // seconds
)

// slots limits the requests in progress. It holds one entry for each of them.
type slots chan struct{}

// bound returns a handler that passes a request to page, or answers 503 if no slot becomes free
// within slotWait.
func (s slots) bound(page http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case s <- struct{}{}:
			defer func() { <-s }()
			page.ServeHTTP(w, r)
		case <-r.Context().Done():
		case <-time.After(slotWait):
			w.Header().Set("Retry-After", retryAfter)
			http.Error(w, "as many requests for such pages as are allowed are in progress; ask again later", http.StatusServiceUnavailable)
		}
	})
}

// scrape is bound for metrics.
func (s slots) scrape(page http.Handler) http.Handler {
	return s.bound(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// An error means that there is no connection that could be slow.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(scrapeTime))
		page.ServeHTTP(w, r)
	}))
}
