package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// folder is what the installer does with files. Each call is one step: a kill comes
// before or after it, and other writers too.
type folder interface {
	// names returns the names of all files, sorted.
	names() ([]string, error)
	// read returns a regular file and its mode.
	read(name string) ([]byte, fs.FileMode, error)
	// create writes a file that is not there yet, to the disk.
	create(name string, content []byte, mode fs.FileMode) error
	// rename puts a file in the place of another one, if there is one, in one step.
	rename(from, to string) error
	remove(name string) error
}

// diskFolder is a folder of this machine. No link leads out of it.
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
	// A link would be replaced, and its target stay as it is.
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
	// The umask does not count: who could read the file can still read it.
	return errors.Join(err, file.Chmod(mode), file.Sync(), file.Close())
}

func (d diskFolder) rename(from, to string) error { return d.root.Rename(from, to) }

func (d diskFolder) remove(name string) error { return d.root.Remove(name) }
