package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// key is one key of the configuration file. Its name includes the object that it is in:
// "Toggles.EnablePprof".
type key struct {
	name        string
	to          any    // *bool, *string or *int; nil: the key has no effect
	least, most int    // bounds of a number
	usual       string // the JSON of a key without effect
}

// read decodes a value into the field of k. A null counts as absent.
func (k key) read(v json.RawMessage) error {
	err := json.Unmarshal(v, k.to)
	want := "true or false"
	switch to := k.to.(type) {
	case *string:
		want = "a text in quotes"
	case *int:
		want = fmt.Sprintf("a whole number from %d to %d", k.least, k.most)
		if *to < k.least || *to > k.most {
			err = errors.New("out of bounds")
		}
	}
	if err != nil {
		return fmt.Errorf("%s: expected %s, found %.40s", k.name, want, strings.Join(strings.Fields(string(v)), " "))
	}
	return nil
}

// parseConfig reads the text of a configuration. A key that is absent keeps its default.
// The line ends and the byte order mark of Windows editors are accepted.
func parseConfig(data []byte) (config, []notice, error) {
	values, err := valuesOf(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
	if err != nil {
		return config{}, nil, err
	}
	c := defaultConfig()
	keys := c.keys()
	var notices []notice
	for _, path := range slices.Sorted(maps.Keys(values)) {
		v := values[path]
		at := slices.IndexFunc(keys, func(k key) bool { return strings.EqualFold(k.name, path) })
		switch {
		case at < 0:
			notices = append(notices, notice{warn: true, msg: "unknown configuration key, it changes nothing", keysAndValues: []any{"key", path}})
		case keys[at].to != nil:
			if err := keys[at].read(v); err != nil {
				return config{}, nil, err
			}
		case string(v) != keys[at].usual:
			notices = append(notices, notice{
				msg:           "this configuration key has no counterpart here, it changes nothing",
				keysAndValues: []any{"key", keys[at].name, "value", string(v)},
			})
		}
	}
	if err := c.check(); err != nil {
		return config{}, nil, err
	}
	return c, notices, nil
}

// valuesOf returns the values of a JSON object by key. The members of the objects Toggles and
// Transport have keys like Toggles.EnablePprof.
func valuesOf(data []byte) (map[string]json.RawMessage, error) {
	var whole map[string]json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			line := 1 + bytes.Count(data[:min(int(syntax.Offset), len(data))], []byte("\n"))
			return nil, fmt.Errorf("line %d: is not JSON: %w", line, err)
		}
		return nil, fmt.Errorf("is no JSON object: %w", err)
	}
	out := map[string]json.RawMessage{}
	for name, v := range whole {
		if !strings.EqualFold(name, "Toggles") && !strings.EqualFold(name, "Transport") {
			out[name] = v
			continue
		}
		var inner map[string]json.RawMessage
		if json.Unmarshal(v, &inner) != nil {
			return nil, fmt.Errorf("%s: expected an object", name)
		}
		for sub, v := range inner {
			out[name+"."+sub] = v
		}
	}
	return out, nil
}
