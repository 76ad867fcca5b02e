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

// ErrNoBundle is a file that no agent made, or that is not whole.
var ErrNoBundle = errors.New("no support bundle")

// MaxSize is the number of bytes of a file from which on Read takes it for no
// bundle, and of each file in it after it was unpacked. Those of an agent are far below.
const MaxSize = bounded.MaxInput

// maxFiles is how many files a bundle has at most.
const maxFiles = 64

// Bundle is what programs read of a support bundle.
type Bundle struct {
	Dump      state.Dump
	Recording Recording
}

// Read reads a bundle of so many bytes. It fails with ErrNoBundle for whatever is
// none, and with a bounded.ErrTooMuch besides for one with more in it than is decoded:
// bounded.OfAnAgent. What it returns need not fit together. Other files are not unpacked.
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

// readFile lets use read one file to its end, which checks its sum.
func readFile(z *zip.Reader, name string, use func(io.Reader) error) error {
	in, err := z.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	// What the file says of its size need not be true: it is counted.
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
