// Package bundle reads support bundles, which are untrusted input, and prints the timeline of
// their recordings.
package bundle

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/bounded"
)

// ErrNoBundle is a file that no agent made, or that is not whole.
var ErrNoBundle = errors.New("no support bundle")

// MaxSize is the number of bytes of a file from which on Read takes it for no
// bundle, and of each file in it after it was unpacked. Those of an agent are far below.
const MaxSize = bounded.MaxInput

// What is in one at most.
const (
	maxFiles   = 64
	maxVersion = 1 << 10 // bytes of version.txt
)

// Bundle is what programs read of a support bundle.
type Bundle struct {
	Version   string // of the agent
	Dump      state.Dump
	Recording Recording
}

// Read reads a bundle of so many bytes. It fails with ErrNoBundle for whatever is
// none, and with a bounded.ErrTooMuch besides for one with more in it than is decoded:
// bounded.OfAnAgent. What it returns need not fit together. Files that it does not know are
// not unpacked.
func Read(r io.ReaderAt, size int64) (Bundle, error) {
	b, err := read(r, size)
	if err != nil {
		return Bundle{}, fmt.Errorf("%w: %w", ErrNoBundle, err)
	}
	return b, nil
}

func read(r io.ReaderAt, size int64) (Bundle, error) {
	var b Bundle
	z, err := bounded.Zip(r, size)
	if err != nil {
		return b, err
	}
	if len(z.File) > maxFiles {
		return b, fmt.Errorf("it has more than %d files", maxFiles)
	}
	for _, f := range []struct {
		name  string
		limit int64
		read  func(io.Reader) error
	}{
		{debug.BundleVersion, maxVersion, func(r io.Reader) error {
			text, err := io.ReadAll(r)
			b.Version = strings.TrimSpace(string(text))
			return err
		}},
		{debug.BundleDump, MaxSize, func(r io.Reader) (err error) {
			b.Dump, err = bounded.ReadDump(r)
			return err
		}},
		{debug.BundleRecording, MaxSize, func(r io.Reader) (err error) {
			b.Recording, err = ReadRecording(r)
			return err
		}},
	} {
		if err := readFile(z, f.name, f.limit, f.read); err != nil {
			return b, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return b, nil
}

var (
	errMissing = errors.New("is not there")
	errTwice   = errors.New("is there twice")
)

// readFile lets use read one file to its end, which checks its sum.
func readFile(z *zip.Reader, name string, limit int64, use func(io.Reader) error) error {
	var file *zip.File
	for _, f := range z.File {
		switch {
		case f.Name != name:
		case file != nil:
			return errTwice
		default:
			file = f
		}
	}
	if file == nil {
		return errMissing
	}
	// What the file says of its size need not be true: it is counted.
	in, err := file.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	left := &io.LimitedReader{R: in, N: limit + 1}
	err = use(left)
	if err == nil {
		_, err = io.Copy(io.Discard, left)
	}
	if left.N <= 0 { // the text was truncated, so the error of use would be misleading
		return fmt.Errorf("is larger than %d bytes", limit)
	}
	return err
}
