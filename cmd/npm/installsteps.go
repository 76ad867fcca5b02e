package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// pluginFile is the program of our plugin, beside npm.exe and where CNI looks for it.
const pluginFile = pluginType + ".exe"

// editTries bounds how often an edit begins anew because another writer was quicker.
const editTries = 5

var (
	errBusyWriter = errors.New("another program keeps writing it: try again when it has ended")
	errNoList     = errors.New("no .conflist: give --conf-dir as containerd has it, when the CNI is installed")
)

// installer puts our plugin into CNI and takes it out. The program is there before a
// list names it, and goes after no list does.
type installer struct {
	source, bin, conf folder // beside npm.exe, of programs, of configurations
	list              string // the name of the .conflist; "": the one that containerd takes
	entry             listEntry
	placed            bool // the program was compared before: it is enough that it is there
	// suffix is of this run, so that two at once never write the same file. Nothing of
	// CNI reads a name that ends so.
	suffix string
}

// Names of files that are there for a moment. A killed run leaves at most one of each.
func (in *installer) fresh() string { return pluginType + "." + in.suffix + ".new" }
func (in *installer) aside() string { return pluginType + "." + in.suffix + ".old" }

// install reports whether it changed the list.
func (in *installer) install() (bool, error) {
	if err := in.place(); err != nil {
		return false, err
	}
	in.sweep(in.conf)
	return in.addEntry()
}

// place copies the program, unless it is there.
func (in *installer) place() error {
	if in.placed {
		if names, err := in.bin.names(); err != nil || slices.Contains(names, pluginFile) {
			return err
		}
	}
	want, _, err := in.source.read(pluginFile)
	if err != nil {
		return fmt.Errorf("%s beside npm.exe: %w: it is part of the same image", pluginFile, err)
	}
	in.sweep(in.bin)
	have, _, err := in.bin.read(pluginFile)
	if err == nil && bytes.Equal(have, want) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := in.bin.create(in.fresh(), want, 0o755); err != nil {
		return errors.Join(err, in.discard(in.bin))
	}
	renamed := in.bin.rename(in.fresh(), pluginFile)
	if renamed == nil || errors.Is(renamed, fs.ErrNotExist) { // see sweep
		return renamed
	}
	// Windows replaces no program that runs, but renames it.
	if err := in.bin.rename(pluginFile, in.aside()); err != nil {
		return errors.Join(renamed, in.discard(in.bin))
	}
	if err := in.bin.rename(in.fresh(), pluginFile); err != nil {
		return errors.Join(err, in.bin.rename(in.aside(), pluginFile))
	}
	return nil
}

// discard removes what this run did not finish.
func (in *installer) discard(f folder) error {
	if err := f.remove(in.fresh()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// sweep removes what killed runs left. What cannot go yet, as it runs, goes the next
// time. A run at the same time loses its file and begins anew.
func (in *installer) sweep(f folder) {
	names, err := f.names()
	if err != nil {
		return // whoever reads the folder next says so
	}
	for _, name := range names {
		if strings.HasPrefix(name, pluginType+".") && (strings.HasSuffix(name, ".new") || strings.HasSuffix(name, ".old")) {
			_ = f.remove(name) // see above
		}
	}
}

// addEntry puts our entry into the list.
func (in *installer) addEntry() (bool, error) {
	return in.edit(in.chosen, func(file []byte) ([]byte, error) {
		if err := checkVersion(file); err != nil {
			return nil, err
		}
		return insertEntry(file, in.entry)
	})
}

// chosen returns the name of the list: containerd takes the first of all configurations.
func (in *installer) chosen() (string, error) {
	if in.list != "" {
		return in.list, nil
	}
	names, err := in.conf.names()
	if err != nil {
		return "", err
	}
	for _, name := range names {
		switch path.Ext(name) {
		case ".conflist":
			return name, nil
		case ".conf", ".json":
			return "", fmt.Errorf("%s comes first for containerd: %w, or name another file with --conf-file", name, errSinglePlugin)
		}
	}
	return "", errNoList
}

// edit changes a list in one step and reports whether it had to. Another writer's file
// that came in between is read anew.
func (in *installer) edit(which func() (string, error), change func([]byte) ([]byte, error)) (bool, error) {
	var gone error
	for range editTries {
		name, err := which()
		if err != nil {
			return false, err
		}
		before, mode, err := in.conf.read(name)
		if err != nil {
			return false, err
		}
		after, err := change(before)
		if err != nil {
			return false, fmt.Errorf("%s: %w", name, err)
		}
		if bytes.Equal(before, after) {
			return false, nil
		}
		if err := in.conf.create(in.fresh(), after, mode); err != nil {
			return false, errors.Join(err, in.discard(in.conf))
		}
		now, _, err := in.conf.read(name)
		if err == nil && bytes.Equal(now, before) {
			if gone = in.conf.rename(in.fresh(), name); gone == nil {
				return true, nil
			}
		}
		if err := in.discard(in.conf); err != nil {
			return false, err
		}
	}
	return false, errors.Join(errBusyWriter, gone)
}

// uninstall takes our entry out of every list, then removes the program.
func (in *installer) uninstall() error {
	in.sweep(in.conf)
	names, err := in.conf.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if in.list == "" && path.Ext(name) == ".conflist" || in.list == name {
			if _, err := in.edit(func() (string, error) { return name, nil }, withoutEntry); err != nil {
				return err
			}
		}
	}
	for _, name := range names {
		file, _, err := in.conf.read(name)
		if err != nil {
			return err
		}
		if rest, err := removeEntry(file); err == nil && !bytes.Equal(rest, file) {
			return fmt.Errorf("%s still names %s, so the program stays: leave out --conf-file to take it out of every list", name, pluginType)
		}
	}
	in.sweep(in.bin)
	err = in.bin.remove(pluginFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return in.bin.rename(pluginFile, in.aside()) // it runs: see place
	}
	return nil
}

// withoutEntry is removeEntry, but for an unreadable file that does not name our plugin.
func withoutEntry(file []byte) ([]byte, error) {
	rest, err := removeEntry(file)
	if err != nil && !bytes.Contains(file, []byte(pluginType)) {
		return file, nil
	}
	return rest, err
}
