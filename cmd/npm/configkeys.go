package main

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/similar"
)

// known is every key that is understood.
type known struct {
	config
	idle
}

// key is one key of the configuration file, with the object that it is in.
type key struct {
	name        string
	field       []int // of known
	least, most int   // of a number
	tag         reflect.StructTag
}

// keys are those of known, in its order.
var keys = keysOf(reflect.TypeFor[known](), key{most: math.MaxInt32})

// keysOf returns the keys of a struct; those of one inside it have its bounds, unless
// they say their own.
func keysOf(t reflect.Type, around key) []key {
	var out []key
	for i := range t.NumField() {
		f := t.Field(i)
		k := around
		k.name, k.field, k.tag = f.Tag.Get("key"), append(slices.Clone(around.field), i), f.Tag
		for name, to := range map[string]*int{"least": &k.least, "most": &k.most} {
			if text, ok := f.Tag.Lookup(name); ok {
				*to, _ = strconv.Atoi(text) // TestConfigKeys reads them all
			}
		}
		if k.name == "" {
			out = append(out, keysOf(f.Type, k)...)
			continue
		}
		out = append(out, k)
	}
	return out
}

// defaults returns every key's default.
func defaults() known {
	all := known{config: config{Budgets: policy.DefaultBudgets()}}
	for _, k := range keys {
		text, ok := k.tag.Lookup("default")
		if !ok {
			continue
		}
		to := reflect.ValueOf(&all).Elem().FieldByIndex(k.field)
		if to.Kind() == reflect.String {
			text = strconv.Quote(text)
		}
		_, _ = k.read(to, json.RawMessage(text)) // TestConfigKeys reads them all
	}
	return all
}

// read takes over a value that is not null. What it returns is what a text means that is
// known in another case only.
func (k key) read(to reflect.Value, v json.RawMessage) (meant string, err error) {
	switch to.Kind() {
	case reflect.Bool:
		var b bool
		if err := json.Unmarshal(v, &b); err != nil {
			return "", fmt.Errorf("expected true or false, found %s", shown(v))
		}
		to.SetBool(b)
	case reflect.String:
		var s string
		if err := json.Unmarshal(v, &s); err != nil {
			return "", fmt.Errorf("expected a text in quotes, found %s", shown(v))
		}
		return k.readText(to, s, v)
	default:
		n, err := k.whole(v)
		if err != nil || k.unset(strconv.Itoa(n)) {
			return "", err
		}
		if to.Type() == reflect.TypeFor[time.Duration]() {
			n *= int(time.Millisecond)
		}
		to.SetInt(int64(n))
	}
	return "", nil
}

// readText takes over a text, which v is in the file.
func (k key) readText(to reflect.Value, s string, v json.RawMessage) (meant string, err error) {
	if k.unset(s) {
		return "", nil
	}
	if words := strings.Fields(k.tag.Get("oneof")); len(words) > 0 {
		if s = strings.ToLower(s); !slices.Contains(words, s) {
			last := len(words) - 1
			return "", fmt.Errorf("expected %s or %s, found %s", strings.Join(words[:last], ", "), words[last], shown(v))
		}
	}
	for _, known := range strings.Fields(k.tag.Get("known")) {
		if s != known && strings.EqualFold(s, known) {
			meant = known
		}
	}
	to.SetString(s)
	return meant, nil
}

// unset reports whether a value counts as absent.
func (k key) unset(text string) bool {
	unset, ok := k.tag.Lookup("unset")
	return ok && text == unset
}

// whole reads a whole number, however it is written: 500, 5e2, 500.0.
func (k key) whole(v json.RawMessage) (int, error) {
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || f != math.Trunc(f) || f < float64(k.least) || f > float64(k.most) {
		return 0, fmt.Errorf("expected a whole number from %d to %d, found %s", k.least, k.most, shown(v))
	}
	return int(f), nil
}

// shown is a value for a message.
func shown(v json.RawMessage) string {
	const most = 40
	switch v[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	}
	if runes := []rune(string(v)); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return string(v)
}

// findKey finds a key in any case, as the predecessor did.
func findKey(path string) (key, bool) {
	for _, k := range keys {
		if strings.EqualFold(k.name, path) {
			return k, true
		}
	}
	return key{}, false
}

// nearestKey returns the known key whose last word is most like that of path,
// "" when none is.
func nearestKey(path string) string {
	last := func(s string) string { return s[strings.LastIndexByte(s, '.')+1:] }
	words := make([]string, len(keys))
	for i, k := range keys {
		words[i] = last(k.name)
	}
	near := similar.Name(last(path), words)
	if near == "" {
		return ""
	}
	return keys[slices.Index(words, near)].name
}
