package doctor

import (
	_ "embed"
	"html/template"
	"io"
)

//go:embed report.html
var pageText string

var page = template.Must(template.New("report").Parse(pageText))

// writePage writes the page for people. The records are there by their numbers.
func (r Result) writePage(w io.Writer) error { return page.Execute(w, r) }

// Said is the answer of a record in a few words.
func (r *Record) Said() string { return r.said() }
