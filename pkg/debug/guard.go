package debug

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// local shows a page to clients on this machine. Such a client may be a
// browser that a page on the internet made ask, under a name of its own that
// resolves to 127.0.0.1; so the request must not name any host but this one.
func local(page http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !fromLoopback(r.RemoteAddr):
			http.Error(w, "this page answers only on the node itself; kubectl port-forward reaches it", http.StatusForbidden)
		case !namesAddress(r.Host):
			http.Error(w, "this page answers only to the name localhost and to addresses", http.StatusForbidden)
		default:
			page.ServeHTTP(w, r)
		}
	})
}

// byPlace passes requests of this machine on to local, and others to public.
func byPlace(local, public http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fromLoopback(r.RemoteAddr) {
			local.ServeHTTP(w, r)
		} else {
			public.ServeHTTP(w, r)
		}
	})
}

// fromLoopback takes what net/http knows of a client, "address:port".
func fromLoopback(remote string) bool {
	from, err := netip.ParseAddrPort(remote)
	return err == nil && from.Addr().IsLoopback()
}

// namesAddress reports whether a Host header is an address or localhost, with
// or without a port.
func namesAddress(host string) bool {
	name := hostname(host)
	if strings.EqualFold(name, "localhost") {
		return true
	}
	_, err := netip.ParseAddr(name)
	return err == nil
}

// hostname returns a Host header without its port and brackets.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}
