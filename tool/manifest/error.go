package manifest

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Error describes an invalid part of the manifests.
type Error struct {
	File     string // the path, or "stdin"
	Line     int    // in the file, of the part or of its nearest known parent; 0: unknown
	Document int    // number within the file, from 1; 0: the error is about the whole file
	Item     string // position within a list, such as items[2]; empty outside of lists
	Object   string // kind and namespace/name, as far as they are known
	Field    string // path in the object, as the API server writes it
	Reason   string // the problem and advice
	Err      error  // the cause, if it is an error of the operating system
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

// maxErrors limits the errors that are reported; further errors are counted.
const maxErrors = 20

// Errors are several errors, in the order of the text. The last one may give the number of unreported
// errors.
type Errors []error

// Error returns one line for each.
func (e Errors) Error() string { return errors.Join(e...).Error() }

// Unwrap returns all of them.
func (e Errors) Unwrap() []error { return e }

// Lines returns the lines of an error, one for each of Errors. It repeats the text of errors that wrap
// Errors in each line.
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

// refused records an error, which may be nil, so that Load reports all errors together.
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

// failed returns the recorded errors, nil if there are none.
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

// refuse returns the first of errs as an Error, nil if errs is empty.
func (p place) refuse(errs field.ErrorList) *Error {
	if len(errs) == 0 {
		return nil
	}
	// Errors about one map have a random order.
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

// ownWords is the type of this package's errors, whose detail is the whole text. Errors of the Kubernetes
// libraries have other types.
const ownWords field.ErrorType = ""

func invalid(at *field.Path, format string, args ...any) field.ErrorList {
	return field.ErrorList{wrong(at, format, args...)}
}

func wrong(at *field.Path, format string, args ...any) *field.Error {
	return &field.Error{Type: ownWords, Field: at.String(), Detail: fmt.Sprintf(format, args...)}
}
