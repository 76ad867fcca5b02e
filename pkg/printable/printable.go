// Package printable makes text for a terminal out of what others wrote. Names,
// labels and messages of a dump, a bundle or a server may hold any character: an
// escape sequence would steer the terminal, a line break would forge a line.
package printable

import (
	"fmt"
	"strings"
	"unicode"
)

// Line returns text as one line that can be printed: every other character is
// U+FFFD.
func Line(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// Page is text in the making. The zero value is empty.
type Page struct{ b strings.Builder }

// Line adds one line, whatever the arguments hold, indented by twice as many
// spaces and without spaces at its end.
func (p *Page) Line(indent int, format string, args ...any) {
	p.b.WriteString(strings.TrimRight(strings.Repeat("  ", indent)+Line(fmt.Sprintf(format, args...)), " ") + "\n")
}

// String returns the lines.
func (p *Page) String() string { return p.b.String() }

// Count returns a number with its noun: "1 pod", "2 pods", "2 policies".
func Count(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "y"):
		return fmt.Sprintf("%d %sies", n, strings.TrimSuffix(noun, "y"))
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
