package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// PluginType is the type of our entry in a list of CNI plugins, and the name of its program.
const PluginType = "winnpm-cni"

// maxListBytes is the size of the largest list that is edited. Lists of CNIs have at most a few
// kilobytes.
const maxListBytes = 1 << 20

// Errors of lists that are left alone.
var (
	errListTooLarge = fmt.Errorf("more than %d bytes", maxListBytes)
	errInvalidList  = errors.New("no list of CNI plugins")
	errSinglePlugin = errors.New("one CNI plugin and no list, so nothing can be chained to it: make it a .conflist")
	// errListVersion is for a list in a version of CNI that our plugin does not speak: with our
	// plugin in such a list, no pod of the node would start.
	errListVersion = errors.New("our plugin does not speak the list's cniVersion")
)

// cniVersions are the versions of CNI that our plugin speaks.
var cniVersions = []string{"0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"}

// PluginEntry is our entry in a list of CNI plugins. The plugin has defaults for absent fields.
type PluginEntry struct {
	Type        string `json:"type"`
	Mode        string `json:"mode,omitempty"`
	WaitSeconds int    `json:"waitSeconds,omitempty"`
	Pipe        string `json:"pipe,omitempty"`
}

// checkVersion returns errListVersion for a list to which our plugin must not be added. It ignores
// unreadable lists, which insertEntry rejects.
func checkVersion(file []byte) error {
	var list struct {
		Version string `json:"cniVersion"`
	}
	if json.Unmarshal(file, &list) != nil || slices.Contains(cniVersions, list.Version) {
		return nil
	}
	return fmt.Errorf("%w: it is %q, and one of %v is needed", errListVersion, list.Version, cniVersions)
}

// insertEntry adds our plugin to the end of a list. It replaces an entry of ours with other
// settings, and changes no other byte.
func insertEntry(file []byte, entry PluginEntry) ([]byte, error) {
	entry.Type = PluginType
	list, err := parseList(file)
	if err != nil {
		return nil, err
	}
	if ours := list.ours(); len(ours) == 1 && sameEntry(file[list.plugins[ours[0]].start:list.plugins[ours[0]].end], entry) {
		return file, nil
	}
	if file, err = removeEntry(file); err != nil {
		return nil, err
	}
	if list, err = parseList(file); err != nil {
		return nil, err
	}
	text, err := json.Marshal(entry)
	if err != nil {
		return nil, fmt.Errorf("entry: %w", err)
	}
	at := list.open
	if n := len(list.plugins); n > 0 { // with the white space that is before the last plugin
		last := list.plugins[n-1]
		before := file[len(bytes.TrimRight(file[:last.start], " \t\r\n")):last.start]
		text = slices.Concat([]byte{','}, before, text)
		at = last.end
	}
	if len(file)+len(text) > maxListBytes { // removeEntry would reject the list
		return nil, errListTooLarge
	}
	return slices.Concat(file[:at], text, file[at:]), nil
}

// removeEntry undoes insertEntry. It returns a list without our plugin unchanged.
func removeEntry(file []byte) ([]byte, error) {
	list, err := parseList(file)
	if err != nil {
		return nil, err
	}
	ours := list.ours()
	if len(ours) == 0 {
		return file, nil
	}
	i := ours[len(ours)-1] // one entry at a time
	start, end := list.plugins[i].start, list.plugins[i].end
	switch {
	case i > 0:
		start = list.plugins[i-1].end // with the comma before
	case len(list.plugins) > 1:
		end = list.plugins[1].start
	}
	return removeEntry(slices.Concat(file[:start], file[end:]))
}

// sameEntry reports whether an entry has these settings and no other field.
func sameEntry(text []byte, want PluginEntry) bool {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var is PluginEntry
	return decoder.Decode(&is) == nil && is == want
}

// pluginList has the positions of the plugins in the text of a list.
type pluginList struct {
	open    int // position after the opening bracket of "plugins"; 0 if there is no "plugins"
	plugins []listedPlugin
}

// listedPlugin is the position of a plugin: from start up to, but not including, end.
type listedPlugin struct {
	start, end int
	ours       bool
}

// ours returns the indexes of our entries.
func (l pluginList) ours() (found []int) {
	for i, p := range l.plugins {
		if p.ours {
			found = append(found, i)
		}
	}
	return found
}

// parseList finds the plugins of a list. It rejects the lists that containerd rejects.
func parseList(file []byte) (list pluginList, err error) {
	if len(file) > maxListBytes {
		return list, errListTooLarge
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(file, &members); err != nil {
		return list, fmt.Errorf("%w: %w", errInvalidList, err)
	}
	decoder := json.NewDecoder(bytes.NewReader(file))
	_, err = decoder.Token() // the brace
	for err == nil && decoder.More() {
		var key json.Token
		if key, err = decoder.Token(); err != nil {
			break
		}
		switch {
		case key != "plugins":
			err = decoder.Decode(new(json.RawMessage))
		case list.open > 0:
			err = errors.New(`"plugins" is there twice`)
		default:
			err = list.read(decoder)
		}
	}
	_, single := members["type"]
	switch {
	case err != nil:
		return list, fmt.Errorf("%w: %w", errInvalidList, err)
	case list.open == 0 && single:
		return list, errSinglePlugin
	case list.open == 0:
		return list, fmt.Errorf(`%w: it has no "plugins"`, errInvalidList)
	}
	return list, nil
}

// read reads the value of "plugins".
func (l *pluginList) read(decoder *json.Decoder) error {
	if bracket, err := decoder.Token(); err != nil || bracket != json.Delim('[') {
		return errors.New(`"plugins" is no array`)
	}
	l.open = int(decoder.InputOffset())
	for decoder.More() {
		var text json.RawMessage
		var p struct{ Type string }
		if err := decoder.Decode(&text); err != nil {
			return err
		}
		err := json.Unmarshal(text, &p)
		if err != nil || text[0] != '{' {
			return fmt.Errorf("plugin %d is no object with a type", len(l.plugins)+1)
		}
		end := int(decoder.InputOffset())
		l.plugins = append(l.plugins, listedPlugin{end - len(text), end, p.Type == PluginType})
	}
	_, err := decoder.Token() // the other bracket
	return err
}
