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
	name string
	data []byte
}

// open reads what path names: one file, the manifests of a folder but not of
// its sub-folders, or standard input.
func open(path string, stdin io.Reader) ([]file, error) {
	if path == "-" {
		data, err := io.ReadAll(stdin)
		if err != nil {
			return nil, &Error{File: "stdin", Reason: fmt.Sprintf("cannot be read: %v", err), Err: err}
		}
		return []file{{"stdin", data}}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	if !info.IsDir() {
		f, err := read(path)
		return []file{f}, err
	}
	return folder(path)
}

func folder(path string) ([]file, error) {
	entries, err := os.ReadDir(path) // sorted by name
	if err != nil {
		return nil, unreadable(path, err)
	}
	var out []file
	for _, entry := range entries {
		switch filepath.Ext(entry.Name()) {
		case ".yaml", ".yml", ".json":
		default:
			continue
		}
		name := filepath.Join(path, entry.Name())
		// Not entry.IsDir, which does not follow the links of mounted ConfigMaps.
		info, err := os.Stat(name)
		if err != nil {
			return nil, unreadable(name, err)
		}
		if info.IsDir() {
			continue
		}
		f, err := read(name)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	if len(out) == 0 {
		return nil, &Error{File: path, Reason: "the folder has no .yaml, .yml or .json file; name the folder that has (sub-folders are not read)"}
	}
	return out, nil
}

func read(path string) (file, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return file{}, unreadable(path, err)
	}
	return file{path, data}, nil
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
