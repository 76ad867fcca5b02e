package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/winnpm/winnpm/pkg/similar"
)

// key is one key of the configuration file. Its name includes the object that it is in:
// "Toggles.EnablePprof".
type key struct {
	name        string
	to          any      // *bool, *string, *int, or *time.Duration for milliseconds
	least, most int      // bounds of a number
	oneOf       []string // the texts that are allowed, in small letters; any case is read
	unset       bool     // 0 and "" count as absent
	// idle reports whether a key that has no effect has another value than its default; nil
	// for a key that has an effect.
	idle func() bool
}

// ignored returns a key of the predecessor that is checked and has no effect.
func ignored[T bool | int | string](name string, usual T, unset bool) key {
	value := usual
	return key{name: name, to: &value, most: math.MaxInt32, unset: unset, idle: func() bool { return value != usual }}
}

// read decodes a value that is not null into the field of k.
func (k key) read(v json.RawMessage) error {
	switch to := k.to.(type) {
	case *bool:
		if json.Unmarshal(v, to) != nil {
			return fmt.Errorf("%s: expected true or false, found %s", k.name, shown(v))
		}
	case *string:
		return k.readText(to, v)
	case *int:
		return k.readNumber(v, func(n int) { *to = n })
	case *time.Duration:
		return k.readNumber(v, func(n int) { *to = time.Duration(n) * time.Millisecond })
	}
	return nil
}

func (k key) readText(to *string, v json.RawMessage) error {
	var s string
	if json.Unmarshal(v, &s) != nil {
		return fmt.Errorf("%s: expected a text in quotes, found %s", k.name, shown(v))
	}
	if s == "" && k.unset {
		return nil
	}
	if len(k.oneOf) > 0 {
		if s = strings.ToLower(s); !slices.Contains(k.oneOf, s) {
			last := len(k.oneOf) - 1
			return fmt.Errorf("%s: expected %s or %s, found %s", k.name, strings.Join(k.oneOf[:last], ", "), k.oneOf[last], shown(v))
		}
	}
	*to = s
	return nil
}

// readNumber reads a whole number in any form: 500, 5e2, 500.0.
func (k key) readNumber(v json.RawMessage, set func(int)) error {
	var f float64
	if json.Unmarshal(v, &f) != nil || f != math.Trunc(f) || f < float64(k.least) || f > float64(k.most) {
		return fmt.Errorf("%s: expected a whole number from %d to %d, found %s", k.name, k.least, k.most, shown(v))
	}
	if f != 0 || !k.unset {
		set(int(f))
	}
	return nil
}

// shown returns a value for a message.
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

// parser reads the values of a configuration file.
type parser struct {
	keys    []key
	seen    map[string]string // paths as written, by their small letters
	notices []notice
}

// parseConfig reads the text of a configuration. A key that is absent keeps its default.
// The line ends and the byte order mark of Windows editors are accepted.
func parseConfig(data []byte) (config, []notice, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if err := checkJSON(data); err != nil {
		return config{}, nil, err
	}
	c := defaultConfig()
	p := parser{keys: c.keys(), seen: map[string]string{}}
	if err := p.object(data, ""); err != nil {
		return config{}, nil, err
	}
	if err := c.check(); err != nil {
		return config{}, nil, err
	}
	for _, name := range []string{networkAzure, networkCalico} {
		if c.Network != name && strings.EqualFold(c.Network, name) {
			p.notices = append(p.notices, notice{warn: true, msg: "names of HNS networks are case sensitive",
				keysAndValues: []any{"key", "WindowsNetworkName", "value", strconv.Quote(c.Network), "didYouMean", name}})
		}
	}
	return c, p.notices, nil
}

// checkJSON returns an error unless the text is one JSON object.
func checkJSON(data []byte) error {
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return errors.New("is UTF-16; save it as UTF-8")
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return errors.New("is empty; the least is {}")
	}
	var whole json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			line := 1 + bytes.Count(data[:min(int(syntax.Offset), len(data))], []byte("\n"))
			return fmt.Errorf("line %d: is not JSON: %w", line, err)
		}
		return fmt.Errorf("is not JSON: %w", err)
	}
	if whole[0] != '{' {
		return fmt.Errorf("expected an object, found %s", shown(whole))
	}
	return nil
}

// object reads each value of a JSON object, in the order of the text. encoding/json alone
// would keep the last of two equal keys, and would not name unknown keys.
func (p *parser) object(text json.RawMessage, prefix string) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	if _, err := dec.Token(); err != nil { // the brace
		return err
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return err
		}
		if err := p.value(fmt.Sprintf("%s%v", prefix, name), v); err != nil {
			return err
		}
	}
	return nil
}

// value reads the value at a path. A null counts as absent. A key that occurs twice, in any
// case, is an error, because the intended value is unknown.
func (p *parser) value(path string, v json.RawMessage) error {
	switch isObject := strings.EqualFold(path, "Toggles") || strings.EqualFold(path, "Transport"); {
	case string(v) == "null":
		return nil
	case isObject && v[0] == '{':
		return p.object(v, path+".")
	case isObject:
		return fmt.Errorf("%s: expected an object, found %s", path, shown(v))
	}
	lower := strings.ToLower(path)
	if before, twice := p.seen[lower]; twice {
		return fmt.Errorf("the key %q is there twice, first as %q; leave one", path, before)
	}
	p.seen[lower] = path
	at := slices.IndexFunc(p.keys, func(k key) bool { return strings.EqualFold(k.name, path) })
	if at < 0 {
		n := notice{warn: true, msg: "unknown configuration key, it changes nothing", keysAndValues: []any{"key", path}}
		if near := nearestKey(p.keys, path); near != "" {
			n.keysAndValues = append(n.keysAndValues, "didYouMean", near)
		}
		p.notices = append(p.notices, n)
		return nil
	}
	k := p.keys[at]
	if err := k.read(v); err != nil {
		return err
	}
	if k.idle != nil && k.idle() {
		p.notices = append(p.notices, notice{msg: "this configuration key has no counterpart here, it changes nothing", keysAndValues: []any{"key", k.name, "value", string(v)}})
	}
	return nil
}

// nearestKey returns the name of the key whose last word is most similar to the last word
// of path. It returns "" if no key is similar.
func nearestKey(keys []key, path string) string {
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
