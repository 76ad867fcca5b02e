package ui

import (
	"net/http"
	"slices"
	"strings"
)

// OwnSite refuses, whatever the page, what a browser asks on behalf of another
// site, before anything is computed or counted. The other site could not read
// the answer, but it would cost what it costs. A browser says itself for whom it
// asks; other programs send neither of these headers.
func OwnSite(next http.Handler) http.Handler {
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
