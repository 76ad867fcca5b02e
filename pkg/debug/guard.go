package debug

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// local answers only clients on this machine, and only to addresses and localhost.
func local(page http.Handler) http.Handler {
	page = ByAddress(page)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !fromLoopback(r.RemoteAddr) {
			http.Error(w, "this page answers only clients on the node itself; use kubectl port-forward", http.StatusForbidden)
			return
		}
		page.ServeHTTP(w, r)
	})
}

// ByAddress answers only if the Host header is localhost or an address. A client may be a browser
// that runs a script of an internet page whose own host name resolves to 127.0.0.1.
func ByAddress(page http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !namesAddress(r.Host) {
			http.Error(w, "this page answers only to the name localhost and to addresses", http.StatusForbidden)
			return
		}
		page.ServeHTTP(w, r)
	})
}

// byPlace passes requests from this machine to an address or localhost to local, and all other
// requests to public: another name may be one that a page on the internet points at this machine.
func byPlace(local, public http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fromLoopback(r.RemoteAddr) && namesAddress(r.Host) {
			local.ServeHTTP(w, r)
		} else {
			public.ServeHTTP(w, r)
		}
	})
}

// fromLoopback reports whether a client's "address:port" is on this machine.
func fromLoopback(remote string) bool {
	from, err := netip.ParseAddrPort(remote)
	return err == nil && from.Addr().IsLoopback()
}

// namesAddress reports whether a Host header is an address or localhost, with
// or without a port.
func namesAddress(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	_, err := netip.ParseAddr(host)
	return err == nil || strings.EqualFold(host, "localhost")
}

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
