package manifest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// file is one input, as UTF-8 without a byte order mark.
type file struct {
	name string // the path, in errors
	data []byte
}

// open reads what path names: one file, the manifests of a folder, or standard input, which
// has a name of its own.
func (l *loader) open(path string, stdin io.Reader, name string) ([]file, error) {
	if path == "-" {
		f, err := l.read(name, stdin)
		return []file{f}, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	if !info.IsDir() {
		f, err := l.readFile(path)
		return []file{f}, err
	}
	files, err := l.folder(path)
	if err == nil && len(files) == 0 {
		err = l.nothing(path)
	}
	return files, err
}

func (l *loader) readFile(path string) (file, error) {
	f, err := os.Open(path)
	if err != nil {
		return file{}, unreadable(path, err)
	}
	defer f.Close()
	return l.read(path, f)
}

// read reads an input to its end. Text with a byte order mark may be UTF-16, as for kubectl.
func (l *loader) read(name string, from io.Reader) (file, error) {
	data, err := l.inputs.Read(from)
	if err == nil {
		data, _, err = transform.Bytes(unicode.BOMOverride(transform.Nop), data)
	}
	if err != nil {
		return file{}, unreadable(name, err)
	}
	return file{name, data}, nil
}

// unreadable leaves the path out of the reason, where the system repeats it.
func unreadable(path string, err error) error {
	reason := err
	if inner, ok := errors.AsType[*fs.PathError](err); ok {
		reason = inner.Err
	}
	out := &Error{File: path, Reason: fmt.Sprintf("cannot be read: %v", reason), Err: err}
	if errors.Is(err, fs.ErrNotExist) {
		out.Reason += "; check the path"
	}
	return out
}
