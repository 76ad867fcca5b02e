package node

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// PluginFile is the name of the CNI plugin's program, both beside npm.exe and in the folder of
// CNI's programs.
const PluginFile = PluginType + ".exe"

// Plugin is the installation of the CNI plugin on a node.
type Plugin struct {
	ConfDir  string // folder of CNI's configurations: containerd's conf_dir
	ConfFile string // name of the .conflist in it; "": the one that containerd uses
	BinDir   string // folder of CNI's programs: containerd's bin_dir
	Entry    PluginEntry

	placed bool // the program was compared before, so Install only checks that it exists
}

// Install copies the plugin's program from beside this program into BinDir, then adds Entry to the list of
// plugins. It reports whether it changed the list.
func (p *Plugin) Install() (changed bool, err error) {
	err = p.with(func(in *installer) error {
		changed, err = in.install()
		return err
	})
	p.placed = p.placed || err == nil
	return changed, err
}

// Uninstall undoes Install.
func (p *Plugin) Uninstall() error { return p.with((*installer).uninstall) }

// with opens the three folders and calls use.
func (p *Plugin) with(use func(*installer) error) (err error) {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	in := &installer{
		list: p.ConfFile, entry: p.Entry, placed: p.placed,
		suffix: fmt.Sprintf("%016x", rand.Uint64()), //nolint:gosec // no secret
	}
	for dir, f := range map[string]*folder{filepath.Dir(program): &in.source, p.BinDir: &in.bin, p.ConfDir: &in.conf} {
		root, openErr := os.OpenRoot(dir)
		if openErr != nil {
			return fmt.Errorf("%w: give --conf-dir and --bin-dir as containerd has them", openErr)
		}
		defer func() { err = errors.Join(err, root.Close()) }()
		*f = diskFolder{root}
	}
	return use(in)
}

// editTries is how often an edit is tried if another program writes the list at the same time.
const editTries = 5

var (
	errBusyWriter = errors.New("another program keeps writing it: try again when it has ended")
	errNoList     = errors.New("no .conflist: give --conf-dir as containerd has it, when the CNI is installed")
)

// installer adds our plugin to CNI and removes it. It copies the program before a list names
// it, and deletes the program after no list names it.
type installer struct {
	source, bin, conf folder // beside npm.exe, of programs, of configurations
	list              string // the name of the .conflist; "": the one that containerd takes
	entry             PluginEntry
	placed            bool // see Plugin
	// suffix is unique to this run, so that two runs never write the same file. CNI does not
	// read files with such names.
	suffix string
}

// Names of temporary files. A killed run leaves at most one of each.
func (in *installer) fresh() string { return PluginType + "." + in.suffix + ".new" }
func (in *installer) aside() string { return PluginType + "." + in.suffix + ".old" }

// install reports whether it changed the list.
func (in *installer) install() (bool, error) {
	if err := in.place(); err != nil {
		return false, err
	}
	in.sweep(in.conf)
	name, err := in.chosen()
	if err != nil {
		return false, err
	}
	return in.edit(name, func(file []byte) ([]byte, error) {
		if err := checkVersion(file); err != nil {
			return nil, err
		}
		return insertEntry(file, in.entry)
	})
}

// place copies the program, unless the same program is already there.
func (in *installer) place() error {
	if in.placed {
		if names, err := in.bin.names(); err != nil || slices.Contains(names, PluginFile) {
			return err
		}
	}
	want, _, err := in.source.read(PluginFile)
	if err != nil {
		return fmt.Errorf("%s beside npm.exe: %w: it is part of the same image", PluginFile, err)
	}
	in.sweep(in.bin)
	have, _, err := in.bin.read(PluginFile)
	if err == nil && bytes.Equal(have, want) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := in.bin.create(in.fresh(), want, 0o755); err != nil {
		in.sweep(in.bin)
		return err
	}
	renamed := in.bin.rename(in.fresh(), PluginFile)
	if renamed == nil || errors.Is(renamed, fs.ErrNotExist) { // see sweep
		return renamed
	}
	// Windows cannot replace a running program, but can rename it.
	if err := in.bin.rename(PluginFile, in.aside()); err != nil {
		in.sweep(in.bin)
		return renamed
	}
	if err := in.bin.rename(in.fresh(), PluginFile); err != nil {
		return errors.Join(err, in.bin.rename(in.aside(), PluginFile))
	}
	return nil
}

// sweep removes files that killed runs, or failed steps of this run, have left. A program that is
// still running cannot be removed; a later run removes it. Another run at the same time may lose
// its file, and starts again.
func (in *installer) sweep(f folder) {
	names, err := f.names()
	if err != nil {
		return // the next read of the folder returns the error
	}
	for _, name := range names {
		if strings.HasPrefix(name, PluginType+".") && (strings.HasSuffix(name, ".new") || strings.HasSuffix(name, ".old")) {
			_ = f.remove(name) // see above
		}
	}
}

// chosen returns the name of the list to edit. Without a given name it is the first configuration,
// which is the one that containerd uses.
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

// edit changes a list in one step and reports whether a change was necessary. If another program
// wrote the list in the meantime, it starts again.
func (in *installer) edit(name string, change func([]byte) ([]byte, error)) (bool, error) {
	var gone error
	for range editTries {
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
			in.sweep(in.conf)
			return false, err
		}
		now, _, err := in.conf.read(name)
		if err == nil && bytes.Equal(now, before) {
			if gone = in.conf.rename(in.fresh(), name); gone == nil {
				return true, nil
			}
		}
		in.sweep(in.conf)
	}
	return false, errors.Join(errBusyWriter, gone)
}

// uninstall removes our entry from every list, and then removes the program.
func (in *installer) uninstall() error {
	in.sweep(in.conf)
	names, err := in.conf.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if in.list == "" && path.Ext(name) == ".conflist" || in.list == name {
			if _, err := in.edit(name, withoutEntry); err != nil {
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
			return fmt.Errorf("%s still names %s, so the program stays: leave out --conf-file to take it out of every list", name, PluginType)
		}
	}
	in.sweep(in.bin)
	err = in.bin.remove(PluginFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return in.bin.rename(PluginFile, in.aside()) // it runs: see place
	}
	return nil
}

// withoutEntry is removeEntry, but for an unreadable file that does not name our plugin.
func withoutEntry(file []byte) ([]byte, error) {
	rest, err := removeEntry(file)
	if err != nil && !bytes.Contains(file, []byte(PluginType)) {
		return file, nil
	}
	return rest, err
}

// folder has the file operations of the installer. Each call is one step: a kill or a write of
// another program comes before or after it.
type folder interface {
	// names returns the names of all files, sorted.
	names() ([]string, error)
	// read returns a regular file and its mode.
	read(name string) ([]byte, fs.FileMode, error)
	// create writes a new file and flushes it to the disk. It fails if the file exists.
	create(name string, content []byte, mode fs.FileMode) error
	// rename renames a file in one step, and replaces an existing one.
	rename(from, to string) error
	remove(name string) error
}

// diskFolder is a folder on disk. Links cannot lead out of it.
type diskFolder struct{ root *os.Root }

func (d diskFolder) names() (names []string, err error) {
	entries, err := fs.ReadDir(d.root.FS(), ".")
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

func (d diskFolder) read(name string) (content []byte, mode fs.FileMode, err error) {
	info, err := d.root.Lstat(name)
	if err != nil {
		return nil, 0, err
	}
	// A rename would replace a link, and leave its target unchanged.
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s: %s is no regular file: name the file that it leads to", d.root.Name(), name)
	}
	content, err = d.root.ReadFile(name)
	return content, info.Mode().Perm(), err
}

func (d diskFolder) create(name string, content []byte, mode fs.FileMode) error {
	file, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	// Chmod undoes the umask: the new file has the mode of the old one.
	return errors.Join(err, file.Chmod(mode), file.Sync(), file.Close())
}

func (d diskFolder) rename(from, to string) error { return d.root.Rename(from, to) }

func (d diskFolder) remove(name string) error { return d.root.Remove(name) }
