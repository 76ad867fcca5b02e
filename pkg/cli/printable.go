package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Printable returns text as one line that can be printed: every other character is U+FFFD. Names, labels and
// messages of a dump, a bundle or a server may hold any character: an escape sequence would steer the terminal,
// a line break would forge a line.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// Page collects the lines of a text. The zero value is empty.
type Page struct{ b strings.Builder }

// Line adds exactly one line. It is indented by twice as many spaces, and has no spaces at its end.
func (p *Page) Line(indent int, format string, args ...any) {
	p.b.WriteString(strings.TrimRight(strings.Repeat("  ", indent)+Printable(fmt.Sprintf(format, args...)), " ") + "\n")
}

// String returns the lines.
func (p *Page) String() string { return p.b.String() }

// PrintableText returns a writer that passes text on to w, with U+FFFD for every unprintable
// character except line feeds. It is the last protection before a terminal: callers must use
// Printable for each name in a line, because the writer cannot tell whether a line feed is part of
// a name. A Write must not end inside a character; the parts of such a character count as
// unprintable.
func PrintableText(w io.Writer) io.Writer {
	return &writer{w, func(out []byte, _ rune) []byte { return utf8.AppendRune(out, unicode.ReplacementChar) }}
}

// PrintableJSON returns a writer that passes JSON on to w, with every unprintable character as a
// JSON escape sequence. The JSON keeps its meaning, and cannot control a terminal. encoding/json
// does not escape DEL, C1 and characters that change the direction of text.
func PrintableJSON(w io.Writer) io.Writer {
	return &writer{w, func(out []byte, r rune) []byte {
		if high, low := utf16.EncodeRune(r); high != unicode.ReplacementChar {
			return fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		}
		return fmt.Appendf(out, `\u%04x`, r)
	}}
}

type writer struct {
	w     io.Writer
	other func(out []byte, r rune) []byte // what stands for r
}

// Write implements io.Writer.
func (w *writer) Write(p []byte) (int, error) {
	out := make([]byte, 0, len(p))
	for _, r := range string(p) {
		if r == '\n' || unicode.IsPrint(r) {
			out = utf8.AppendRune(out, r)
		} else {
			out = w.other(out, r)
		}
	}
	if _, err := w.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}
