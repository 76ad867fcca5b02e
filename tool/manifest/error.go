package manifest

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Error is something in the manifests that is refused.
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

// maxErrors is how many refused things are told at once; the rest is counted.
const maxErrors = 20

// Errors are several things that are refused, in the order of the text.
type Errors struct {
	Shown []*Error // the first of them
	All   int
}

// Error returns one line for each that is shown, and one that counts the rest.
func (e *Errors) Error() string {
	var lines []string
	for _, one := range e.Shown {
		lines = append(lines, one.Error())
	}
	if more := e.All - len(e.Shown); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "\n")
}

// Lines returns the lines of an error, of which one may be about several things that are
// refused. What wraps these is said in each line.
func Lines(err error) []string {
	all, ok := errors.AsType[*Errors](err)
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

// Unwrap returns those that are shown.
func (e *Errors) Unwrap() []error {
	var out []error
	for _, one := range e.Shown {
		out = append(out, one)
	}
	return out
}

// refused keeps an error, if there is one, so that everything is told at once.
func (l *loader) refused(err *Error) {
	if err == nil {
		return
	}
	if l.errs.All++; len(l.errs.Shown) < maxErrors {
		l.errs.Shown = append(l.errs.Shown, err)
	}
}

// failed returns what was refused, nil for nothing.
func (l *loader) failed() error {
	switch l.errs.All {
	case 0:
		return nil
	case 1:
		return l.errs.Shown[0]
	}
	return &l.errs
}

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

// fail makes the error for a field of the object that stands at p; "" is the whole object.
func (p place) fail(path, format string, args ...any) *Error {
	return &Error{File: p.file, Line: p.line(path), Document: p.document, Item: p.item, Object: p.object, Field: path, Reason: fmt.Sprintf(format, args...)}
}

var step = regexp.MustCompile(`\[(\d+)\]|\[([^\]]*)\]|[^.\[\]]+`)

// line returns the line of a field, or of what it should be in; 0 when that is not known.
func (p place) line(path string) int {
	if p.lines == nil {
		return 0
	}
	var steps []any
	for _, found := range step.FindAllStringSubmatch(p.item+"."+path, -1) {
		switch i, err := strconv.Atoi(found[1]); {
		case found[1] != "" && err == nil:
			steps = append(steps, i)
		case found[2] != "":
			steps = append(steps, found[2])
		default:
			steps = append(steps, found[0])
		}
	}
	return p.lines.of(steps...)
}

// refuse makes an error of the first of errs, if there is one.
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

// ownWords is the type of errors whose detail says everything; those of Kubernetes' libraries
// have other types.
const ownWords field.ErrorType = ""

// invalid returns an error about one field.
func invalid(at *field.Path, format string, args ...any) field.ErrorList {
	return field.ErrorList{{Type: ownWords, Field: at.String(), Detail: fmt.Sprintf(format, args...)}}
}
