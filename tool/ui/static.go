package ui

import (
	"embed"
	"net/http"
	"path"
)

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
