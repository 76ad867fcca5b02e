package manifest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// file is one input, as it was read.
type file struct {
	path string // "-" is standard input
	name string // in errors
	data []byte
}

// open reads what path names: one file, the manifests of a folder, or standard input, which
// has a name of its own.
func (l *loader) open(path string, stdin io.Reader, name string) ([]file, error) {
	if path == "-" {
		data, err := io.ReadAll(stdin)
		if err != nil {
			return nil, &Error{File: name, Reason: fmt.Sprintf("cannot be read: %v", err), Err: err}
		}
		return []file{{path, name, data}}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	if !info.IsDir() {
		f, err := read(path)
		return []file{f}, err
	}
	files, err := l.folder(path)
	if err == nil && len(files) == 0 {
		err = l.nothing(path)
	}
	return files, err
}

func read(path string) (file, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return file{}, unreadable(path, err)
	}
	return file{path, path, data}, nil
}

// readTwice reports whether a file was read before, as when its folder is given too. All its
// objects would be there twice: one error says that.
func (l *loader) readTwice(f file) bool {
	path := f.path
	if abs, err := filepath.Abs(path); err == nil && path != "-" { // a file may be named as standard input is
		path = abs
	}
	if l.files[path] {
		_ = l.refused(&Error{File: f.name, Reason: "is given twice, by itself or with its folder; give it once"}) // it keeps those
		return true
	}
	if l.files == nil {
		l.files = map[string]bool{}
	}
	l.files[path] = true
	return false
}

// unreadable leaves the path out of the reason, where the system repeats it.
func unreadable(path string, err error) error {
	reason := err
	var inner *os.PathError
	if errors.As(err, &inner) {
		reason = inner.Err
	}
	return &Error{File: path, Reason: fmt.Sprintf("cannot be read: %v; check the path", reason), Err: err}
}
