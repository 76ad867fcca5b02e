package manifest

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/winnpm/winnpm/pkg/similar"
)

// decode fills the object that into points to with a tree. It refuses what an
// API server refuses under strict validation: unknown fields, fields in another
// case, and values of the wrong type.
func decode(at place, tree map[string]any, into any) error {
	if err := conform(at, nil, tree, reflect.TypeOf(into).Elem()); err != nil {
		return err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(tree, into); err != nil {
		return at.fail(nil, "%v", err)
	}
	return nil
}

var (
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
	intOrString = reflect.TypeFor[intstr.IntOrString]()
)

// conform checks that a value can be decoded into a variable of type t.
func conform(at place, path *field.Path, v any, t reflect.Type) error {
	if v == nil {
		return nil // as everywhere in the API, null is the absence of a value
	}
	if reflect.PointerTo(t).Implements(unmarshaler) {
		return conformCustom(at, path, v, t)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return conform(at, path, v, t.Elem())
	case reflect.Struct:
		return conformStruct(at, path, v, t)
	case reflect.Map:
		return conformMap(at, path, v, t)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return conformScalar[string](at, path, v, "a string in base64")
		}
		return conformList(at, path, v, t)
	case reflect.String:
		return conformScalar[string](at, path, v, "a string; put it in quotes")
	case reflect.Bool:
		return conformScalar[bool](at, path, v, "true or false, without quotes")
	case reflect.Int32, reflect.Int64:
		return conformInt(at, path, v, t)
	default:
		return at.fail(path, "the field is not supported here; remove it")
	}
}

func conformStruct(at place, path *field.Path, v any, t reflect.Type) error {
	object, ok := v.(map[string]any)
	if !ok {
		return at.fail(path, "is %s, must be a mapping of field names to values", describe(v))
	}
	fields := fieldsOf(t)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		here := path.Child(name)
		ft, ok := fields[name]
		if !ok {
			return at.fail(here, "unknown field; %s", advise(name, fields))
		}
		if err := conform(at, here, object[name], ft); err != nil {
			return err
		}
	}
	return nil
}

// fieldsOf returns the JSON fields of a struct, with those of its inlined ones.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "" && strings.Contains(options, "inline"):
			maps.Copy(out, fieldsOf(f.Type))
		case name != "" && name != "-":
			out[name] = f.Type
		}
	}
	return out
}

// advise says what to do about an unknown field.
func advise(name string, fields map[string]reflect.Type) string {
	if known := similar.Name(name, slices.Sorted(maps.Keys(fields))); known != "" {
		return fmt.Sprintf("did you mean %s?", known)
	}
	return "correct its name or place, or remove it"
}

func conformMap(at place, path *field.Path, v any, t reflect.Type) error {
	object, ok := v.(map[string]any)
	if !ok {
		return at.fail(path, "is %s, must be a mapping of keys to values", describe(v))
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if err := conform(at, path.Key(key), object[key], t.Elem()); err != nil {
			return err
		}
	}
	return nil
}

func conformList(at place, path *field.Path, v any, t reflect.Type) error {
	list, ok := v.([]any)
	if !ok {
		return at.fail(path, "is %s, must be a list", describe(v))
	}
	for i, item := range list {
		if err := conform(at, path.Index(i), item, t.Elem()); err != nil {
			return err
		}
	}
	return nil
}

func conformScalar[T any](at place, path *field.Path, v any, want string) error {
	if _, ok := v.(T); !ok {
		return at.fail(path, "is %s, must be %s", describe(v), want)
	}
	return nil
}

func conformInt(at place, path *field.Path, v any, t reflect.Type) error {
	if !isNumber(v) {
		return at.fail(path, "is %s, must be a whole number, without quotes", describe(v))
	}
	if n, ok := v.(int64); !ok || reflect.Zero(t).OverflowInt(n) {
		return at.fail(path, "is %s, must be a whole number of %d bits", describe(v), t.Bits())
	}
	return nil
}

func isNumber(v any) bool {
	switch v.(type) {
	case int64, float64:
		return true
	}
	return false
}

// conformCustom tries what the type itself says, as quantities and times do.
func conformCustom(at place, path *field.Path, v any, t reflect.Type) error {
	if t == intOrString {
		if isNumber(v) {
			return conformInt(at, path, v, reflect.TypeFor[int32]())
		}
		return conformScalar[string](at, path, v, "a number or a name")
	}
	text, err := json.Marshal(v)
	if err != nil {
		return at.fail(path, "%v", err)
	}
	if err := json.Unmarshal(text, reflect.New(t).Interface()); err != nil {
		return at.fail(path, "is %s, which is not a value of this field: %v; correct it", describe(v), err)
	}
	return nil
}

// shownString is how many characters of a string an error quotes: a file that is
// no manifest is one long string.
const shownString = 60

// kindOfValue names the kind of a value, and not the value: what is no manifest may be a secret.
func kindOfValue(v any) string {
	switch v := v.(type) {
	case bool:
		return "a truth value"
	case int64, float64:
		return "a number"
	case string:
		return fmt.Sprintf("text of %d characters", utf8.RuneCountInString(v))
	}
	return describe(v)
}

// describe names a value as its writer knows it.
func describe(v any) string {
	switch v := v.(type) {
	case bool:
		return fmt.Sprintf("the truth value %t", v)
	case int64:
		return fmt.Sprintf("the number %d", v)
	case float64:
		return fmt.Sprintf("the number %v", v)
	case string:
		if runes := []rune(v); len(runes) > shownString {
			v = string(runes[:shownString]) + "…"
		}
		return fmt.Sprintf("the string %q", v)
	case []any:
		return "a list"
	case map[string]any:
		return "a mapping"
	}
	return "null"
}
