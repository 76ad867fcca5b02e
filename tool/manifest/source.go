package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// ErrEmpty is the error for standard input without any document.
var ErrEmpty = errors.New("no manifest")

// open reads what path names: one file, the manifests of a folder, or standard input.
func (l *loader) open(path string) error {
	if path == "-" {
		name := cmp.Or(l.StdinName, "stdin")
		err := l.read(name, l.Stdin)
		if err == nil && l.empty {
			err = &Error{File: name, Reason: "is empty; give it manifests", Err: ErrEmpty}
		}
		return err
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return unreadable(path, err)
	case info.IsDir():
		return l.folder(path)
	}
	return l.readFile(path)
}

func (l *loader) readFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return unreadable(path, err)
	}
	defer f.Close()
	return l.read(path, f)
}

// read reads an input to its end. Text with a byte order mark may be UTF-16, as for kubectl.
func (l *loader) read(name string, from io.Reader) error {
	text, err := l.inputs.Read(from)
	if err == nil {
		text, _, err = transform.Bytes(unicode.BOMOverride(transform.Nop), text)
	}
	if err != nil {
		return unreadable(name, err)
	}
	l.documents(name, text)
	return nil
}

// unreadable returns the error about an input that cannot be read. Its reason omits the path.
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
