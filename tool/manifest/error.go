package manifest

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Error describes a part of the manifests that is refused.
type Error struct {
	File     string // the path, or "stdin"
	Line     int    // of the file, where it is or what it is in begins; 0: not known
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
	if e.Line > 0 {
		parts[0] = fmt.Sprintf("%s:%d", e.File, e.Line)
	}
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

// maxErrors is how many errors are reported; the rest is counted.
const maxErrors = 20

// Errors are several errors, in the order of the text. The last may count those that are not
// reported.
type Errors []error

// Error returns one line for each.
func (e Errors) Error() string { return errors.Join(e...).Error() }

// Unwrap returns all of them.
func (e Errors) Unwrap() []error { return e }

// Lines returns the lines of an error, one for each of Errors. Text of errors that wrap Errors is
// repeated in each line.
func Lines(err error) []string {
	all, ok := errors.AsType[Errors](err)
	if !ok {
		return []string{oneLine(err.Error())}
	}
	before, _, _ := strings.Cut(err.Error(), all.Error())
	var out []string
	for l := range strings.SplitSeq(all.Error(), "\n") {
		out = append(out, oneLine(before+l))
	}
	return out
}

// refused keeps an error, if there is one, so that all of them are reported at once.
func (l *loader) refused(err *Error) {
	if err == nil {
		return
	}
	if len(l.errs) < maxErrors {
		l.errs = append(l.errs, err)
	} else {
		l.more++
	}
}

// failed returns the errors that were kept; nil if there are none.
func (l *loader) failed() error {
	switch {
	case len(l.errs) == 0:
		return nil
	case len(l.errs) == 1:
		return l.errs[0]
	case l.more > 0:
		return append(l.errs, fmt.Errorf("and %d more", l.more))
	}
	return l.errs
}

// oneLine returns text that may quote any input as one printable line.
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

// place is the place of an object in the manifests.
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

// fail returns an error about a field of the object at p; "" is the whole object.
func (p place) fail(path, format string, args ...any) *Error {
	return &Error{File: p.file, Line: p.line(path), Document: p.document, Item: p.item, Object: p.object, Field: path, Reason: fmt.Sprintf(format, args...)}
}

// refuse returns the first of errs as an Error; nil if there is none.
func (p place) refuse(errs field.ErrorList) *Error {
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
	if first.Type == ownWords {
		return p.fail(first.Field, "%s", first.Detail)
	}
	return p.fail(first.Field, "%s", first.ErrorBody())
}

// ownWords is the type of errors of this package, whose detail is the whole text. Errors of
// Kubernetes' libraries have other types.
const ownWords field.ErrorType = ""

func invalid(at *field.Path, format string, args ...any) field.ErrorList {
	return field.ErrorList{wrong(at, format, args...)}
}

func wrong(at *field.Path, format string, args ...any) *field.Error {
	return &field.Error{Type: ownWords, Field: at.String(), Detail: fmt.Sprintf(format, args...)}
}
