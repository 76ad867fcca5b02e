// Package bundle reads support bundles, which are untrusted input, and prints the timeline of
// their recordings.
package bundle

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"

	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/bounded"
)

// ErrNoBundle is the error for a file that is not a complete support bundle.
var ErrNoBundle = errors.New("no support bundle")

// MaxSize limits the bytes of a bundle, and of each file in it after unpacking. Bundles of agents are far
// smaller.
const MaxSize = bounded.MaxInput

// maxFiles limits the files in a bundle.
const maxFiles = 64

// Bundle is the machine-readable part of a support bundle.
type Bundle struct {
	Dump      state.Dump
	Recording Recording
}

// Read reads a bundle of size bytes. Its errors are ErrNoBundle, and also bounded.ErrTooMuch if a file
// exceeds bounded.OfAnAgent. It does not check that the parts of the bundle are consistent, and does not
// unpack other files.
func Read(r io.ReaderAt, size int64) (Bundle, error) {
	b, err := read(r, size)
	if err != nil {
		return Bundle{}, fmt.Errorf("%w: %w", ErrNoBundle, err)
	}
	return b, nil
}

func read(r io.ReaderAt, size int64) (b Bundle, err error) {
	z, err := bounded.Zip(r, size)
	if err != nil {
		return b, err
	}
	if len(z.File) > maxFiles {
		return b, fmt.Errorf("it has more than %d files", maxFiles)
	}
	err = readFile(z, debug.BundleDump, func(r io.Reader) (err error) {
		b.Dump, err = bounded.ReadDump(r)
		return err
	})
	if err != nil {
		return b, err
	}
	err = readFile(z, debug.BundleRecording, func(r io.Reader) (err error) {
		b.Recording, err = ReadRecording(r)
		return err
	})
	return b, err
}

// readFile calls use with one file, and reads the rest of it, which verifies its checksum.
func readFile(z *zip.Reader, name string, use func(io.Reader) error) error {
	in, err := z.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	// Count the bytes, as the size in the zip file may be wrong.
	left := &io.LimitedReader{R: in, N: MaxSize + 1}
	err = use(left)
	if err == nil {
		_, err = io.Copy(io.Discard, left)
	}
	switch {
	case left.N <= 0: // the text was truncated, so the error of use would be misleading
		return fmt.Errorf("%s: is larger than %d bytes", name, MaxSize)
	case err != nil:
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
