package ui

import (
	"crypto/sha256"
	"embed"
	"fmt"
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

// files are those of the page, by name.
type files map[string]file

type file struct {
	content   []byte
	mediaType string
	tag       string // follows from the content
}

// newFiles reads what is embedded.
func newFiles() files {
	entries, err := static.ReadDir("static")
	if err != nil {
		panic("BUG: " + err.Error())
	}
	out := files{}
	for _, e := range entries {
		content, err := static.ReadFile("static/" + e.Name())
		mediaType := contentTypes[path.Ext(e.Name())]
		if err != nil || mediaType == "" {
			panic(fmt.Sprintf("BUG: static/%s of type %q: %v", e.Name(), mediaType, err))
		}
		sum := sha256.Sum256(content)
		out[e.Name()] = file{content, mediaType, fmt.Sprintf("\"%x\"", sum[:8])}
	}
	return out
}

func (f files) index(w http.ResponseWriter, r *http.Request) { f.serve(w, r, "index.html") }

func (f files) file(w http.ResponseWriter, r *http.Request) { f.serve(w, r, r.PathValue("name")) }

func (f files) serve(w http.ResponseWriter, r *http.Request, name string) {
	file, ok := f[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	// Another version of the program may be behind the same address.
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", file.tag)
	w.Header().Set("Content-Type", file.mediaType)
	if r.Header.Get("If-None-Match") == file.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(file.content) // a client that has gone is no concern
}
