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

	"github.com/winnpm/winnpm/pkg/printable"
)

var (
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
	intOrString = reflect.TypeFor[intstr.IntOrString]()
)

// conform returns what an API server refuses under strict validation when v is decoded into a
// variable of type t: unknown fields, fields in another case, and values of the wrong type. The
// decoders of Kubernetes refuse the same, but do not say in which field a wrong value is.
func conform(path *field.Path, v any, t reflect.Type) field.ErrorList {
	switch kind := t.Kind(); {
	case v == nil: // as everywhere in the API, null is the absence of a value
		return nil
	case reflect.PointerTo(t).Implements(unmarshaler):
		return conformLeaf(path, v, t)
	case kind == reflect.Pointer:
		return conform(path, v, t.Elem())
	case kind == reflect.Struct:
		return conformStruct(path, v, t)
	case kind == reflect.Map:
		return conformMap(path, v, t)
	case kind == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		return conformList(path, v, t)
	}
	return conformLeaf(path, v, t)
}

func conformStruct(path *field.Path, v any, t reflect.Type) field.ErrorList {
	object, ok := v.(map[string]any)
	if !ok {
		return invalid(path, "is %s, must be a mapping of field names to values", describe(v))
	}
	var errs field.ErrorList
	fields := fieldsOf(t)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if ft, ok := fields[name]; ok {
			errs = append(errs, conform(path.Child(name), object[name], ft)...)
		} else {
			errs = append(errs, invalid(path.Child(name), "unknown field; %s", advise(name, fields))...)
		}
	}
	return errs
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

// advise returns the advice about an unknown field.
func advise(name string, fields map[string]reflect.Type) string {
	if known := printable.Similar(name, slices.Sorted(maps.Keys(fields))); known != "" {
		return fmt.Sprintf("did you mean %s?", known)
	}
	return "correct its name or place, or remove it"
}

func conformMap(path *field.Path, v any, t reflect.Type) field.ErrorList {
	object, ok := v.(map[string]any)
	if !ok {
		return invalid(path, "is %s, must be a mapping of keys to values", describe(v))
	}
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(object)) {
		errs = append(errs, conform(path.Key(key), object[key], t.Elem())...)
	}
	return errs
}

func conformList(path *field.Path, v any, t reflect.Type) field.ErrorList {
	list, ok := v.([]any)
	if !ok {
		return invalid(path, "is %s, must be a list", describe(v))
	}
	var errs field.ErrorList
	for i, item := range list {
		errs = append(errs, conform(path.Index(i), item, t.Elem())...)
	}
	return errs
}

// conformLeaf tries to decode a value that is no struct, map or list.
func conformLeaf(path *field.Path, v any, t reflect.Type) field.ErrorList {
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
		return invalid(path, "is %s, must be a whole number of 32 bits or a name", describe(v))
	case t.Kind() == reflect.String:
		return invalid(path, "is %s, must be a string; put it in quotes", describe(v))
	case t.Kind() == reflect.Bool:
		return invalid(path, "is %s, must be true or false, without quotes", describe(v))
	case t.Kind() == reflect.Int32, t.Kind() == reflect.Int64:
		return invalid(path, "is %s, must be a whole number of %d bits, without quotes", describe(v), t.Bits())
	}
	return invalid(path, "is %s, which is not a value of this field: %v; correct it", describe(v), err)
}

// describe names a value for its author.
func describe(v any) string {
	switch v := v.(type) {
	case bool:
		return fmt.Sprintf("the truth value %t", v)
	case int64, float64:
		return fmt.Sprintf("the number %v", v)
	case string:
		return fmt.Sprintf("the string %.60q", v) // a file that is no manifest is one long string
	case []any:
		return "a list"
	case map[string]any:
		return "a mapping"
	}
	return "null"
}
