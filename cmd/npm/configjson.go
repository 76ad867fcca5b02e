package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// entry is one value of the configuration file; path is its key with the
// objects around it: "Toggles.EnablePprof".
type entry struct {
	path  string
	value json.RawMessage
}

// flatten reads a JSON object in its order and opens the objects of known keys.
// A null counts as absent. The same key twice, in any case, is an error: which
// one counts would be a guess.
func flatten(data []byte) ([]entry, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("is empty; the least is {}")
	}
	var whole json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			line := 1 + bytes.Count(data[:min(int(syntax.Offset), len(data))], []byte("\n"))
			return nil, fmt.Errorf("line %d: is not JSON: %w", line, err)
		}
		return nil, fmt.Errorf("is not JSON: %w", err)
	}
	if whole[0] != '{' {
		return nil, fmt.Errorf("expected an object, found %s", shown(whole))
	}
	var entries []entry
	seen := map[string]string{} // lower case → as written
	err := walk(whole, "", func(e entry) error {
		lower := strings.ToLower(e.path)
		if before, twice := seen[lower]; twice {
			return fmt.Errorf("the key %q is there twice, first as %q; leave one", e.path, before)
		}
		seen[lower] = e.path
		entries = append(entries, e)
		return nil
	})
	return entries, err
}

// walk calls add for every value of an object; those of the objects that hold
// known keys come one by one. The text is known to be JSON.
func walk(object json.RawMessage, prefix string, add func(entry) error) error {
	dec := json.NewDecoder(bytes.NewReader(object))
	if _, err := dec.Token(); err != nil { // the brace
		return err
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		e := entry{path: fmt.Sprintf("%s%v", prefix, name)}
		if err := dec.Decode(&e.value); err != nil {
			return err
		}
		switch opens := prefix == "" && holdsKeys(e.path); {
		case string(e.value) == "null":
		case opens && e.value[0] == '{':
			err = walk(e.value, e.path+".", add)
		case opens:
			err = fmt.Errorf("%s: expected an object, found %s", e.path, shown(e.value))
		default:
			err = add(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// holdsKeys reports whether known keys are in an object of this name.
func holdsKeys(name string) bool {
	for _, k := range keys {
		if object, _, inside := strings.Cut(k.name, "."); inside && strings.EqualFold(object, name) {
			return true
		}
	}
	return false
}
