package bounded

import (
	"archive/zip"
	"fmt"
	"io"
	"math"
)

// maxList is the limit of bytes that are read to find and parse the central directory of a zip file.
const maxList = 256 << 10

// Zip opens a zip file of size bytes. It fails if the file is larger than MaxInput, or if its central
// directory is too long: that may be as long as the file, and each entry in it takes some hundred
// bytes of memory. Callers must bound the files that they unpack.
func Zip(r io.ReaderAt, size int64) (*zip.Reader, error) {
	if size > MaxInput {
		return nil, fmt.Errorf("%w: it is larger than %d bytes", ErrTooLarge, MaxInput)
	}
	list := &listReader{r: r, left: maxList}
	z, err := zip.NewReader(list, size)
	list.left = math.MaxInt64
	return z, err
}

// listReader is a reader that fails after left bytes.
type listReader struct {
	r    io.ReaderAt
	left int64
}

// ReadAt implements io.ReaderAt.
func (l *listReader) ReadAt(p []byte, off int64) (int, error) {
	if l.left -= int64(len(p)); l.left < 0 {
		return 0, fmt.Errorf("its list of files is longer than %d bytes", maxList)
	}
	return l.r.ReadAt(p, off)
}
