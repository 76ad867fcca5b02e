package debug

import (
	"net/http"
	"slices"
	"strings"
)

// ownSite refuses, whatever the page, what a browser asks on behalf of another
// site, before anything is computed or counted. The other site could not read
// the answer, but it would cost what it costs. A browser says itself for whom it
// asks; other programs send neither of these headers.
func ownSite(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if foreign(r) {
			http.Error(w, "another site made the browser ask for this page; write its address into the address bar", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// foreign reports whether a request is for another origin than the one that it
// goes to; "none" is what a person typed. A browser that does not say so may name
// the origin: behind a proxy that is another one than ours, so it comes second.
func foreign(r *http.Request) bool {
	if sites := r.Header.Values("Sec-Fetch-Site"); len(sites) > 0 {
		return slices.ContainsFunc(sites, func(site string) bool { return site != "same-origin" && site != "none" })
	}
	own := "http://" + r.Host
	return slices.ContainsFunc(r.Header.Values("Origin"), func(origin string) bool { return !strings.EqualFold(origin, own) })
}

// ownName lets open pages answer only to names that nobody on the internet can
// point at this machine, or a page there would read them as its own: addresses,
// names without a dot or of a cluster, and the node's. "" comes from no browser.
func ownName(node string, page http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.ToLower(hostname(r.Host))
		switch {
		case namesAddress(r.Host), !strings.Contains(name, "."), strings.HasSuffix(name, ".svc"), strings.HasSuffix(name, ".cluster.local"), strings.EqualFold(name, node):
			page.ServeHTTP(w, r)
		default:
			http.Error(w, "this page does not answer to that name; ask for the address of the node", http.StatusForbidden)
		}
	})
}
