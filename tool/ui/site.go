package ui

import (
	"embed"
	"net/http"
	"path"
	"slices"
	"strings"
)

// OwnSite rejects requests that a browser sends on behalf of another site, before they cost anything. The
// other site could not read the answers, but could use up resources. A browser names the site in headers;
// other programs do not send these headers.
func OwnSite(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if foreign(r) {
			http.Error(w, "another site made the browser ask for this page; write its address into the address bar", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// foreign reports whether a browser sends a request on behalf of another site. Sec-Fetch-Site is "none" for
// an address that the user typed. Origin is used only without that header, because behind a proxy it
// differs from the request's host.
func foreign(r *http.Request) bool {
	if sites := r.Header.Values("Sec-Fetch-Site"); len(sites) > 0 {
		return slices.ContainsFunc(sites, func(site string) bool { return site != "same-origin" && site != "none" })
	}
	own := "http://" + r.Host
	return slices.ContainsFunc(r.Header.Values("Origin"), func(origin string) bool { return !strings.EqualFold(origin, own) })
}

//go:embed static
var static embed.FS

// contentTypes are the content types of the files. The table of the operating system may be wrong: on
// Windows other programs change it.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// serveStatic serves the page's file for /ui/NAME, and the page itself for other paths.
func serveStatic(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if name == "" {
		name = "index.html"
	}
	// Another version of the program may use the same address later.
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Content-Type", contentTypes[path.Ext(name)])
	http.ServeFileFS(w, r, static, "static/"+name)
}
