// Package conflist puts our plugin into a list of CNI plugins and takes it out again. It
// edits text: every byte that is not ours stays as it is, so what others wrote, their
// order, spelling and white space come back when we go.
package conflist

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Plugin is the type of our entry, which is the name of the program too.
const Plugin = "winnpm-cni"

// What a file may be at most. The largest lists of CNIs have a few kilobytes.
const (
	MaxBytes = 1 << 20
	maxDepth = 64
)

// Errors of files that are left alone.
var (
	ErrTooLarge     = fmt.Errorf("more than %d bytes", MaxBytes)
	ErrInvalid      = errors.New("no list of CNI plugins")
	ErrSinglePlugin = errors.New("one CNI plugin and no list, so nothing can be chained to it: make it a .conflist")
)

// Entry is what our plugin is told. The zero value of a field is not written: the plugin
// has its defaults.
type Entry struct {
	Mode        string `json:"mode,omitempty"`
	WaitSeconds int    `json:"waitSeconds,omitempty"`
	Pipe        string `json:"pipe,omitempty"`
}

// written is an Entry as it stands in a file.
type written struct {
	Type string `json:"type"`
	Entry
}

// Insert adds our plugin as the last of a list, on a line of its own where the others
// have theirs. An entry of ours with other settings is replaced where it is; with the
// same settings the file is returned as it is.
func Insert(file []byte, entry Entry) ([]byte, error) {
	list, err := parse(file)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(written{Plugin, entry})
	if err != nil {
		return nil, fmt.Errorf("entry: %w", err)
	}
	switch ours := list.ours(); {
	case len(ours) > 1: // somebody copied it
		rest, err := Remove(file)
		if err != nil {
			return nil, err
		}
		return Insert(rest, entry)
	case len(ours) == 1:
		at := list.plugins[ours[0]]
		if same(file[at.start:at.end], entry) {
			return file, nil
		}
		return bounded(splice(file, at.start, at.end, text))
	case len(list.plugins) == 0:
		return bounded(splice(file, list.open, list.open, text))
	}
	last := list.plugins[len(list.plugins)-1]
	addition := append([]byte{','}, spaceBefore(file, last.start)...)
	return bounded(splice(file, last.end, last.end, append(addition, text...)))
}

// bounded refuses a file that Remove would refuse.
func bounded(file []byte) ([]byte, error) {
	if len(file) > MaxBytes {
		return nil, ErrTooLarge
	}
	return file, nil
}

// Remove takes out what Insert put in. A file without our plugin is returned as it is.
func Remove(file []byte) ([]byte, error) {
	list, err := parse(file)
	if err != nil {
		return nil, err
	}
	ours := list.ours()
	if len(ours) == 0 {
		return file, nil
	}
	i := ours[len(ours)-1] // one entry at a time, so each round has one fewer
	at := list.plugins[i]
	switch {
	case i > 0:
		at.start = list.plugins[i-1].end // with the comma before
	case len(list.plugins) > 1:
		at.end = list.plugins[1].start
	}
	return Remove(splice(file, at.start, at.end, nil))
}

// splice returns a copy of file with text in place of the bytes from start to end.
func splice(file []byte, start, end int, text []byte) []byte {
	out := make([]byte, 0, len(file)-(end-start)+len(text))
	out = append(out, file[:start]...)
	out = append(out, text...)
	return append(out, file[end:]...)
}

const space = " \t\r\n"

// spaceBefore returns the white space that ends at an offset.
func spaceBefore(file []byte, end int) []byte {
	return file[len(bytes.TrimRight(file[:end], space)):end]
}

// same reports whether an entry says what it should, and nothing else.
func same(text []byte, want Entry) bool {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var is written
	return decoder.Decode(&is) == nil && is.Entry == want
}

// plugin is where an entry is in the file: from start up to, and without, end.
type plugin struct {
	start, end int
	kind       string // its "type"
}

// list is where the plugins of a file are.
type list struct {
	open    int // behind the bracket of "plugins"
	plugins []plugin
}

// ours returns the indexes of our entries.
func (l list) ours() (found []int) {
	for i, p := range l.plugins {
		if p.kind == Plugin {
			found = append(found, i)
		}
	}
	return found
}

// parse finds the plugins. It refuses what containerd would refuse, and what two readers
// may read in two ways.
func parse(file []byte) (list, error) {
	switch {
	case len(file) > MaxBytes:
		return list{}, ErrTooLarge
	case bytes.HasPrefix(file, []byte("\xef\xbb\xbf")):
		return list{}, fmt.Errorf("%w: it begins with a byte order mark, which containerd does not read: save it as UTF-8 without", ErrInvalid)
	case !json.Valid(file):
		return list{}, fmt.Errorf("%w: it is not valid JSON", ErrInvalid)
	}
	w := walker{file: file, decoder: json.NewDecoder(bytes.NewReader(file))}
	w.decoder.UseNumber() // a number of any size
	return w.list()
}

// walker goes through valid JSON with the offsets of its parts.
type walker struct {
	file    []byte
	decoder *json.Decoder
	depth   int
}

// list reads the outermost object.
func (w *walker) list() (list, error) {
	found, listed, single := list{}, false, false
	if token, _, err := w.next(); err != nil || token != json.Delim('{') {
		return list{}, fmt.Errorf("%w: it is no JSON object", ErrInvalid)
	}
	err := w.object(func(key string) error {
		single = single || key == "type"
		if key != "plugins" {
			_, _, err := w.value()
			return err
		}
		listed = true
		token, _, err := w.next()
		if err != nil || token != json.Delim('[') {
			return fmt.Errorf(`%w: "plugins" is no array`, ErrInvalid)
		}
		found.open = int(w.decoder.InputOffset())
		return w.array(func() error {
			start, end, err := w.value()
			if err != nil {
				return err
			}
			var p struct {
				Type string `json:"type"`
			}
			if w.file[start] != '{' || json.Unmarshal(w.file[start:end], &p) != nil {
				return fmt.Errorf(`%w: plugin %d is no object with a type`, ErrInvalid, len(found.plugins)+1)
			}
			found.plugins = append(found.plugins, plugin{start, end, p.Type})
			return nil
		})
	})
	switch {
	case err != nil:
		return list{}, err
	case !listed && single:
		return list{}, ErrSinglePlugin
	case !listed:
		return list{}, fmt.Errorf(`%w: it has no "plugins"`, ErrInvalid)
	}
	return found, nil
}

// next returns a token and where it starts.
func (w *walker) next() (json.Token, int, error) {
	before := int(w.decoder.InputOffset())
	token, err := w.decoder.Token()
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	rest := w.file[before:]
	return token, before + len(rest) - len(bytes.TrimLeft(rest, space+",:")), err
}

// value reads one value of any kind and returns where it is.
func (w *walker) value() (start, end int, err error) {
	token, start, err := w.next()
	if err != nil {
		return 0, 0, err
	}
	each := func() error {
		_, _, err := w.value()
		return err
	}
	switch token {
	case json.Delim('{'):
		err = w.object(func(string) error { return each() })
	case json.Delim('['):
		err = w.array(each)
	}
	return start, int(w.decoder.InputOffset()), err
}

// object reads the rest of an object; member reads the value of a key. Of two values
// with one key nobody knows which one counts.
func (w *walker) object(member func(key string) error) error {
	seen := map[string]bool{}
	return w.array(func() error {
		token, _, err := w.next()
		if err != nil {
			return err
		}
		key, _ := token.(string) // JSON is valid, so it is one
		if seen[key] {
			return fmt.Errorf("%w: the key %q is there twice", ErrInvalid, key)
		}
		seen[key] = true
		return member(key)
	})
}

// array reads the rest of an array, up to and with its bracket.
func (w *walker) array(element func() error) error {
	w.depth++
	defer func() { w.depth-- }()
	if w.depth > maxDepth {
		return fmt.Errorf("%w: it is nested more than %d deep", ErrInvalid, maxDepth)
	}
	for w.decoder.More() {
		if err := element(); err != nil {
			return err
		}
	}
	_, _, err := w.next()
	return err
}
