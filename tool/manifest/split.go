package manifest

import (
	"bytes"
	"strings"
)

// document is one YAML document of a file.
type document struct {
	text []byte
	line int // line of the file where the text begins, from 1
}

// split splits YAML text at lines that begin with ---, and omits documents without content. No line inside
// a document can begin with ---.
func split(data []byte) []document {
	var out []document
	current := document{line: 1}
	content := false
	finish := func(next int) {
		if content {
			out = append(out, current)
		}
		current, content = document{line: next}, false
	}
	number := 0
	for line := range bytes.Lines(data) {
		number++
		if bytes.HasPrefix(line, []byte("---")) && (len(line) == 3 || strings.ContainsRune(" \t\r\n", rune(line[3]))) {
			finish(number)
			// The rest of the line belongs to the document. Spaces keep its column.
			line = append([]byte("   "), line[3:]...)
		}
		current.text = append(current.text, line...)
		text := strings.TrimSpace(string(line))
		if text != "" && text != "..." && text[0] != '#' && (text[0] != '%' || content) {
			content = true
		}
	}
	finish(number)
	return out
}
