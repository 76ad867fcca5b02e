package manifest

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/winnpm/winnpm/tool/phrase"
)

var (
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
	intOrString = reflect.TypeFor[intstr.IntOrString]()
)

// conform decodes v into a variable of type t and returns the first error of strict validation: an unknown
// field, a field name in another case, or a value of the wrong type. The Kubernetes decoders find the same
// errors, but do not name the field of a wrong value.
func conform(path *field.Path, v any, t reflect.Type) *field.Error {
	switch kind := t.Kind(); {
	case v == nil: // null means no value, as everywhere in the API
		return nil
	case reflect.PointerTo(t).Implements(unmarshaler):
		return conformLeaf(path, v, t)
	case kind == reflect.Pointer:
		return conform(path, v, t.Elem())
	case kind == reflect.Struct || kind == reflect.Map:
		return conformMapping(path, v, t)
	case kind == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		list, ok := v.([]any)
		if !ok {
			return wrong(path, "is %s, must be a list", describe(v))
		}
		for i, item := range list {
			if err := conform(path.Index(i), item, t.Elem()); err != nil {
				return err
			}
		}
		return nil
	}
	return conformLeaf(path, v, t)
}

func conformMapping(path *field.Path, v any, t reflect.Type) *field.Error {
	isMap := t.Kind() == reflect.Map
	object, ok := v.(map[string]any)
	if !ok {
		return wrong(path, "is %s, must be a mapping of %s to values", describe(v), map[bool]string{true: "keys", false: "field names"}[isMap])
	}
	var fields map[string]reflect.Type
	if !isMap {
		fields = fieldsOf(t)
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		at, of := path.Child(name), fields[name]
		if isMap {
			at, of = path.Key(name), t.Elem()
		}
		if of == nil {
			return wrong(at, "unknown field; %s", advise(name, fields))
		}
		if err := conform(at, object[name], of); err != nil {
			return err
		}
	}
	return nil
}

// fieldsOf returns the JSON fields of a struct, including the fields of inlined structs.
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

func advise(name string, fields map[string]reflect.Type) string {
	if known := phrase.Similar(name, slices.Sorted(maps.Keys(fields))); known != "" {
		return fmt.Sprintf("did you mean %s?", known)
	}
	return "correct its name or place, or remove it"
}

// conformLeaf tries to decode a value other than a struct, map or list.
func conformLeaf(path *field.Path, v any, t reflect.Type) *field.Error {
	switch v.(type) {
	case string, bool:
		if reflect.TypeOf(v).Kind() == t.Kind() {
			return nil
		}
	}
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, reflect.New(t).Interface())
	}
	switch {
	case err == nil:
		return nil
	case t == intOrString:
		return wrong(path, "is %s, must be a whole number of 32 bits or a name", describe(v))
	case t.Kind() == reflect.String:
		return wrong(path, "is %s, must be a string; put it in quotes", describe(v))
	case t.Kind() == reflect.Bool:
		return wrong(path, "is %s, must be true or false, without quotes", describe(v))
	case t.Kind() == reflect.Int32, t.Kind() == reflect.Int64:
		return wrong(path, "is %s, must be a whole number of %d bits, without quotes", describe(v), t.Bits())
	}
	return wrong(path, "is %s, which is not a value of this field: %v; correct it", describe(v), err)
}

// describe describes a value for an error.
func describe(v any) string {
	switch v := v.(type) {
	case bool:
		return fmt.Sprintf("the truth value %t", v)
	case int64, float64:
		return fmt.Sprintf("the number %v", v)
	case string:
		return fmt.Sprintf("the string %.60q", v) // at most 60 characters: a text file that is not YAML is one long string
	case []any:
		return "a list"
	case map[string]any:
		return "a mapping"
	}
	return "null"
}
