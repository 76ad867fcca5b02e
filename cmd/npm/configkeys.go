package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/cli"
)

// key is one key of the configuration file. Its name includes the object that it is in:
// "Toggles.EnablePprof".
type key struct {
	name        string
	to          any // *bool, *string or *int
	least, most int // bounds of a number
}

// ignored has the predecessor's keys for its batches, its background work and Linux, with their
// usual values. They have no effect.
var ignored = map[string]string{
	"ApplyMaxBatches": "100", "ResyncPeriodInMinutes": "15", "MaxPendingNetPols": "100",
	"NetPolInvervalInMilliseconds": "500", // the predecessor's spelling
	"Transport.Address":            `"0.0.0.0"`, "Transport.Port": "10092", "Transport.ServicePort": "9002",
	"Toggles.EnableV2NPM": "true", "Toggles.PlaceAzureChainFirst": "false", "Toggles.ApplyIPSetsOnNeed": "false",
	"Toggles.ApplyInBackground": "true", "Toggles.NetPolInBackground": "true", "Toggles.EnableNPMLite": "false",
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
		if at >= 0 {
			if err := keys[at].read(v); err != nil {
				return config{}, nil, err
			}
		} else if n, ok := idle(keys, path, string(v)); ok {
			notices = append(notices, n)
		}
	}
	if err := c.check(); err != nil {
		return config{}, nil, err
	}
	return c, notices, nil
}

// valuesOf returns the values of a JSON object by their keys, with the objects Toggles and Transport
// unfolded.
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

// idle returns the notice about a key that has no effect. It returns false for a key of the
// predecessor with its usual value.
func idle(keys []key, path, value string) (notice, bool) {
	names := slices.Sorted(maps.Keys(ignored))
	for _, name := range names {
		if strings.EqualFold(name, path) {
			return notice{msg: "this configuration key has no counterpart here, it changes nothing", keysAndValues: []any{"key", name, "value", value}}, value != ignored[name]
		}
	}
	n := notice{warn: true, msg: "unknown configuration key, it changes nothing", keysAndValues: []any{"key", path}}
	for _, k := range keys {
		names = append(names, k.name)
	}
	last := func(s string) string { return s[strings.LastIndexByte(s, '.')+1:] }
	words := make([]string, len(names))
	for i, name := range names {
		words[i] = last(name)
	}
	if near := cli.Similar(last(path), words); near != "" {
		n.keysAndValues = append(n.keysAndValues, "didYouMean", names[slices.Index(words, near)])
	}
	return n, true
}
