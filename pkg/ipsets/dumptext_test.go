package ipsets

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Dump returns the snapshot as text, for tests. Spare and
// Called are not in it.
func (c *Cache) Dump() string { return format(c.Snapshot()) }

// Lines of a dump, in this order; the text up to the end of the line follows.
const (
	lineSet    = "set "
	lineNested = "nest "
	lineID     = "  id "
	lineState  = "  state "
	lineRef    = "  held by "
	lineMember = "  member "
)

func format(sets []SetState) string {
	var b strings.Builder
	line := func(head, text string) { b.WriteString(head + text + "\n") }
	for _, s := range sets {
		head := lineSet
		if s.Nested {
			head = lineNested
		}
		line(head, quote(s.Name))
		if s.ID != idOf([]byte(s.Name)) {
			line(lineID, quote(s.ID))
		}
		line(lineState, s.state())
		for _, r := range s.Refs {
			line(lineRef, r.Kind.String()+" "+quote(r.Owner))
		}
		for _, m := range s.Members {
			line(lineMember, quote(m))
		}
	}
	return b.String()
}

// state returns the flags in words.
func (s SetState) state() string {
	words := []string{"absent"}
	if s.InHNS {
		words[0] = "present"
	}
	for _, flag := range []struct {
		on   bool
		word string
	}{{!s.Known, "unknown"}, {s.Rejected, "rejected"}, {s.Dirty, "dirty"}, {s.Fed, "fed"}} {
		if flag.on {
			words = append(words, flag.word)
		}
	}
	return strings.Join(words, " ")
}

// quote returns text as it is, or quoted when it would not come back from a
// line.
func quote(text string) string {
	if q := strconv.Quote(text); q[1:len(q)-1] != text {
		return q
	}
	return text
}

func unquote(text string) (string, error) {
	if !strings.HasPrefix(text, `"`) {
		return text, nil
	}
	return strconv.Unquote(text)
}

// DumpError says where a text is no dump.
type DumpError struct {
	Line   int // from 1
	Reason string
}

// Error implements error.
func (e *DumpError) Error() string { return fmt.Sprintf("set dump line %d: %s", e.Line, e.Reason) }

// ParseDump reads what Dump wrote back as a snapshot. It accepts only text that
// Dump can write, and fails with a *DumpError.
func ParseDump(text string) ([]SetState, error) {
	out := []SetState{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		var err error
		if out, err = parseLine(out, strings.TrimSuffix(line, "\n")); err != nil {
			return nil, &DumpError{number, err.Error()}
		}
	}
	if again := format(out); again != text {
		return nil, &DumpError{firstDifference(again, text), "not as a dump writes it"}
	}
	return out, nil
}

// parseLine adds what a line says to the snapshot.
func parseLine(out []SetState, line string) ([]SetState, error) {
	for _, head := range []string{lineSet, lineNested} {
		if rest, ok := strings.CutPrefix(line, head); ok {
			name, err := unquote(rest)
			return append(out, SetState{ID: idOf([]byte(name)), Name: name, Nested: head == lineNested, Known: true}), err
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%q before the first set", line)
	}
	s := &out[len(out)-1]
	if rest, ok := strings.CutPrefix(line, lineID); ok {
		id, err := unquote(rest)
		s.ID = id
		return out, err
	}
	if rest, ok := strings.CutPrefix(line, lineState); ok {
		words := strings.Fields(rest)
		s.InHNS = slices.Contains(words, "present")
		s.Known = !slices.Contains(words, "unknown")
		s.Rejected = slices.Contains(words, "rejected")
		s.Dirty = slices.Contains(words, "dirty")
		s.Fed = slices.Contains(words, "fed")
		return out, nil
	}
	if rest, ok := strings.CutPrefix(line, lineRef); ok {
		word, owner, _ := strings.Cut(rest, " ")
		kind, ok := refKinds()[word]
		if !ok {
			return nil, fmt.Errorf("no kind of reference: %q", word)
		}
		owner, err := unquote(owner)
		s.Refs = append(s.Refs, Ref{kind, owner})
		return out, err
	}
	if rest, ok := strings.CutPrefix(line, lineMember); ok {
		member, err := unquote(rest)
		s.Members = append(s.Members, member)
		return out, err
	}
	return nil, fmt.Errorf("unknown line %q", line)
}

func refKinds() map[string]RefKind {
	return maps.Collect(func(yield func(string, RefKind) bool) {
		for k := RefSelector; k <= RefPin && yield(k.String(), k); k++ {
		}
	})
}

// firstDifference returns the number of the first line in which texts differ.
func firstDifference(a, b string) int {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range bs {
		if i >= len(as) || as[i] != bs[i] {
			return i + 1
		}
	}
	return len(bs)
}
