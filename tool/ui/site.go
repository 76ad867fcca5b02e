package ui

import (
	"embed"
	"net/http"
	"path"
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

//go:embed static
var static embed.FS

// contentTypes are those of the files. The system's own table is not asked:
// on Windows anybody may have changed it.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// serveStatic answers with the file of the page that a request for /ui/NAME names, or else with the page.
func serveStatic(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if name == "" {
		name = "index.html"
	}
	// Another version of the program may be behind the same address.
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Content-Type", contentTypes[path.Ext(name)])
	http.ServeFileFS(w, r, static, "static/"+name)
}
