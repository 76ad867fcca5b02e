package bounded

import (
	"archive/zip"
	"fmt"
	"io"
	"math"
)

// maxList is the number of bytes of a zip file's own list of files, and of the search for it.
const maxList = 256 << 10

// Zip opens a zip file of so many bytes. It fails for one above MaxInput, and for a long list
// of files: the list may be as long as the file, and each entry costs some hundred bytes.
// Callers bound what they unpack.
func Zip(r io.ReaderAt, size int64) (*zip.Reader, error) {
	if size > MaxInput {
		return nil, fmt.Errorf("%w: it is larger than %d bytes", ErrTooLarge, MaxInput)
	}
	list := &listReader{r: r, left: maxList}
	z, err := zip.NewReader(list, size)
	list.left = math.MaxInt64
	return z, err
}

// listReader fails when more was read than is left.
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
