package manifest

import (
	"fmt"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Error is the first thing in the manifests that is refused.
type Error struct {
	File     string // the path, or "stdin"
	Document int    // number within the file, from 1; 0: it is about the file as a whole
	Item     string // place within a list, such as items[2]; empty outside of lists
	Object   string // kind and namespace/name, as far as they are known
	Field    string // path in the object, as the API server writes it
	Reason   string // what is wrong and what to do
	Err      error  // the cause, if it is one of the system
}

// Error returns one line: the place from the file inwards, then the reason.
func (e *Error) Error() string {
	parts := []string{e.File}
	if e.Document > 0 {
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("document %d %s", e.Document, e.Item)))
	}
	for _, part := range []string{e.Object, e.Field, e.Reason} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return oneLine(strings.Join(parts, ": "))
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// oneLine makes text that may quote any input safe to print as a line.
func oneLine(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	return strings.Join(strings.Fields(s), " ")
}

// place is where an object stands.
type place struct {
	file     string
	document int
	item     string
	object   string
	lines    *lines // nil: the document is one of several on the same lines
}

func (p place) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s document %d %s", p.file, p.document, p.item))
}

// fail makes the error for a field of the object that stands at p.
func (p place) fail(at *field.Path, format string, args ...any) *Error {
	e := &Error{File: p.file, Document: p.document, Item: p.item, Object: p.object, Reason: fmt.Sprintf(format, args...)}
	if at != nil {
		e.Field = at.String()
	}
	return e
}

// refuse makes an error of the first of errs, if there is one.
func (p place) refuse(errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	// Errors about one map come in any order.
	first := errs[0]
	for _, e := range errs[1:] {
		if e.Field == first.Field && e.ErrorBody() < first.ErrorBody() {
			first = e
		}
	}
	out := p.fail(nil, "%s", first.ErrorBody())
	out.Field = first.Field
	return out
}
