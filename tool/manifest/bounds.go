package manifest

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// bounds is what the schema of a custom resource demands of a value beside its
// type. The zero value demands nothing.
type bounds struct {
	fields   map[string]*bounds // of a mapping; a field that is not here has none
	required []string           // fields of a mapping
	oneOf    []string           // fields of a mapping, of which it has exactly one
	items    *bounds            // of a list
	min, max int64              // the number, or how many entries or characters; max 0: no bounds
	unique   bool               // no two entries are equal
	words    []string           // the string is one of them
	pattern  *regexp.Regexp     // the string matches it
	example  string             // of what matches the pattern
}

// check refuses a value that is out of bounds. Its types are right, and it has no
// null. The value and the bounds are finite, as they are of JSON text and of code.
func (b *bounds) check(at place, path *field.Path, v any) error {
	if b == nil {
		return nil
	}
	switch v := v.(type) {
	case map[string]any:
		return b.checkMapping(at, path, v)
	case []any:
		return b.checkList(at, path, v)
	case string:
		return b.checkString(at, path, v)
	case json.Number:
		if n, err := v.Int64(); b.max > 0 && (err != nil || n < b.min || n > b.max) {
			return at.fail(path, "%s is out of range; use %d to %d", v, b.min, b.max)
		}
	}
	return nil
}

func (b *bounds) checkMapping(at place, path *field.Path, object map[string]any) error {
	for _, name := range b.required {
		if _, ok := object[name]; !ok {
			return at.fail(child(path, name), "is missing; %s", b.fields[name].advice())
		}
	}
	if len(b.oneOf) > 0 && len(object) != 1 {
		have := "no field"
		if len(object) > 1 {
			have = strings.Join(slices.Sorted(maps.Keys(object)), " and ")
		}
		return at.fail(path, "has %s; %s", have, b.advice())
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if err := b.fields[name].check(at, child(path, name), object[name]); err != nil {
			return err
		}
	}
	return nil
}

func (b *bounds) checkList(at place, path *field.Path, list []any) error {
	switch n := int64(len(list)); {
	case n < b.min:
		return at.fail(path, "is empty; %s", b.advice())
	case b.max > 0 && n > b.max:
		return at.fail(path, "has %d entries; %s", n, b.advice())
	}
	seen := map[any]bool{}
	for i, item := range list {
		if err := b.items.check(at, path.Index(i), item); err != nil {
			return err
		}
		if !b.unique {
			continue
		}
		if seen[item] {
			return at.fail(path.Index(i), "%q is there twice; remove one", item)
		}
		seen[item] = true
	}
	return nil
}

func (b *bounds) checkString(at place, path *field.Path, s string) error {
	switch n := int64(utf8.RuneCountInString(s)); {
	case b.max > 0 && n > b.max:
		return at.fail(path, "has %d characters; use %d at most", n, b.max)
	case len(b.words) > 0 && !slices.Contains(b.words, s):
		return at.fail(path, "is %s; %s", describe(s), b.advice())
	case b.pattern != nil && !b.pattern.MatchString(s):
		return at.fail(path, "is %s; %s", describe(s), b.advice())
	}
	return nil
}

// advice says what to write where a value is missing or wrong.
func (b *bounds) advice() string {
	switch {
	case b == nil:
		return "give it"
	case len(b.words) > 0:
		return "use " + either(b.words)
	case len(b.oneOf) > 0:
		return "give exactly one of " + either(b.oneOf)
	case b.items != nil && b.min > 0:
		return fmt.Sprintf("give %d to %d entries", b.min, b.max)
	case b.items != nil:
		return fmt.Sprintf("give %d at most", b.max)
	case b.example != "":
		return "write it like " + b.example
	case b.max > 0:
		return fmt.Sprintf("give a number from %d to %d", b.min, b.max)
	}
	return "give it"
}

// either joins words for a choice: a, b or c.
func either(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// pruned removes the fields that are null, as an API server does from a custom
// resource, and refuses entries of lists that are null.
func pruned(at place, path *field.Path, v any) error {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if v[key] == nil {
				delete(v, key)
				continue
			}
			if err := pruned(at, child(path, key), v[key]); err != nil {
				return err
			}
		}
	case []any:
		for i, item := range v {
			if item == nil {
				return at.fail(path.Index(i), "is null; give a value, or remove the entry")
			}
			if err := pruned(at, path.Index(i), item); err != nil {
				return err
			}
		}
	}
	return nil
}
