package manifest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/winnpm/winnpm/pkg/bounded"
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
		data, err := l.inputs.Read(stdin)
		if err != nil {
			return nil, unread(name, err)
		}
		return []file{{path, name, data}}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	if !info.IsDir() {
		f, err := l.read(path)
		return []file{f}, err
	}
	files, err := l.folder(path)
	if err == nil && len(files) == 0 {
		err = l.nothing(path)
	}
	return files, err
}

func (l *loader) read(path string) (file, error) {
	f, err := os.Open(path)
	if err != nil {
		return file{}, unreadable(path, err)
	}
	defer f.Close()
	data, err := l.inputs.Read(f)
	switch {
	case errors.Is(err, bounded.ErrTooLarge):
		return file{}, unread(path, err)
	case err != nil:
		return file{}, unreadable(path, err)
	}
	return file{path, path, data}, nil
}

// unread returns the error about an input that was opened but not read to its end.
func unread(name string, err error) error {
	return &Error{File: name, Reason: fmt.Sprintf("cannot be read: %v", err), Err: err}
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
