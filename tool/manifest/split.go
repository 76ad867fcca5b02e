package manifest

import (
	"bytes"
	"strings"
)

// document is one YAML document of a file.
type document struct {
	text []byte
	line int // of the file, where the text begins; from 1
	// unmarked: it follows the end marker of a document without a marker of its own. kubectl
	// ignores such text.
	unmarked bool
}

// split splits YAML text at its document markers, and omits documents without
// content. A marker is at the beginning of a line, where the content of a
// document cannot look like one.
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
		switch marker(line) {
		case "---":
			finish(number)
			// What follows on the line belongs to the document, in its column.
			line = append([]byte("   "), line[3:]...)
		case "...":
			finish(number + 1)
			current.unmarked = true
			continue
		}
		current.text = append(current.text, line...)
		text := strings.TrimSpace(string(line))
		if text != "" && text[0] != '#' && (text[0] != '%' || content) {
			content = true
		}
	}
	finish(number)
	return out
}

// marker returns the document marker that the line begins with, or "".
func marker(line []byte) string {
	if len(line) < 3 || (len(line) > 3 && !strings.ContainsRune(" \t\r\n", rune(line[3]))) {
		return ""
	}
	return string(line[:3])
}
