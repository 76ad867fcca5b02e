// Package bounded limits untrusted input while it is read, before it is decoded. A few bytes of
// compressed JSON can decode to gigabytes in memory: an empty object is two bytes of text and takes
// some hundred bytes in memory.
package bounded

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/winnpm/winnpm/pkg/debug"
	"github.com/winnpm/winnpm/pkg/state"
)

// ErrTooMuch is the error for a text that exceeds its Limits.
var ErrTooMuch = errors.New("it is larger than anything that an agent writes")

// Limits are upper bounds for a JSON text. All must be above 0.
type Limits struct {
	Bytes   int64 // length of the text
	Objects int   // number of JSON objects, which become structs
	Values  int   // number of entries of all objects and lists, nested ones included
	Depth   int   // nesting depth of objects and lists
}

// OfAnAgent are the limits for a dump or a recording of an agent. Decoding a text within these
// limits takes at most 650 MB of memory. For comparison: the dump of a node in a cluster of 10,000
// pods and 1,000 policies has 8 MB, 66,000 objects and 400,000 values. The dump of a simulation with
// all of these pods on one node has 69 MB, 274,000 objects and 2.2 million values. A recording
// has 8 MiB and the steps in progress, with some 100,000 objects.
var OfAnAgent = Limits{Bytes: 128 << 20, Objects: 500_000, Values: 4_000_000, Depth: 64}

// Reader returns a reader of r that fails with ErrTooMuch at the first byte over a limit. A
// json.Decoder reads a value to its end before it decodes any of it, so it then decodes nothing.
// Reader counts text that is not valid JSON in the same way.
func Reader(r io.Reader, l Limits) io.Reader { return &counter{r: r, limits: l} }

// counter implements Reader. It recognizes only strings, brackets and commas.
type counter struct {
	r      io.Reader
	limits Limits
	err    error // set when a limit is exceeded; every later Read returns it

	bytes           int64
	objects, values int
	depth           int
	quoted, escaped bool
}

// Read implements io.Reader.
func (c *counter) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.r.Read(p)
	c.bytes += int64(n)
	if c.bytes > c.limits.Bytes {
		c.err = c.tooMuch(c.limits.Bytes, "bytes of JSON")
		return 0, c.err
	}
	for _, b := range p[:n] {
		if c.count(b); c.err != nil {
			return 0, c.err
		}
	}
	return n, err
}

// count counts one byte of the text.
func (c *counter) count(b byte) {
	switch {
	case c.escaped:
		c.escaped = false
	case c.quoted:
		c.escaped, c.quoted = b == '\\', b != '"'
	case b == '"':
		c.quoted = true
	case b == '{' || b == '[':
		c.values++ // the first entry; each further one follows a comma
		c.depth++
		if b == '{' {
			c.objects++
		}
		switch {
		case c.objects > c.limits.Objects:
			c.err = c.tooMuch(int64(c.limits.Objects), "JSON objects")
		case c.depth > c.limits.Depth:
			c.err = c.tooMuch(int64(c.limits.Depth), "levels of JSON")
		}
	case b == '}' || b == ']':
		c.depth--
	case b == ',':
		c.values++
	}
	if c.values > c.limits.Values {
		c.err = c.tooMuch(int64(c.limits.Values), "JSON values")
	}
}

func (c *counter) tooMuch(most int64, what string) error {
	return fmt.Errorf("%w, above %d %s; ask the agent again", ErrTooMuch, most, what)
}

// ErrNoDump is returned for text that is not a response of debug.ManagerPath.
var ErrNoDump = errors.New("no dump of " + debug.ManagerPath)

// ReadDump reads a response of debug.ManagerPath to the end of r. It fails with ErrNoDump for anything
// else, and with ErrTooMuch for a response above OfAnAgent. It does not check that
// the parts of the dump fit together.
func ReadDump(r io.Reader) (state.Dump, error) {
	var m struct {
		NodeName *string
		state.Dump
	}
	in := json.NewDecoder(Reader(r, OfAnAgent))
	if err := in.Decode(&m); err != nil {
		return state.Dump{}, fmt.Errorf("%w: %w", ErrNoDump, err)
	}
	switch _, err := in.Token(); {
	case !errors.Is(err, io.EOF):
		return state.Dump{}, fmt.Errorf("%w: there is something behind it", ErrNoDump)
	case m.NodeName == nil:
		return state.Dump{}, fmt.Errorf("%w: it has no NodeName", ErrNoDump)
	case m.Time.IsZero():
		return state.Dump{}, fmt.Errorf("%w: it has no time", ErrNoDump)
	}
	m.Node = *m.NodeName
	return m.Dump, nil
}

// MaxInput is the limit of bytes that a command reads from one file or from standard input.
// MaxInputs is the limit for all inputs together.
const (
	MaxInput  = 64 << 20
	MaxInputs = 256 << 20
)

// ErrTooLarge is the error for inputs over a limit. ErrInputTooLarge wraps it for a single input
// that is larger than MaxInput.
var (
	ErrTooLarge      = errors.New("too large")
	ErrInputTooLarge = fmt.Errorf("%w: a command reads %d MiB of one input", ErrTooLarge, MaxInput>>20)
)

// Inputs counts the bytes that a command has read. The zero value is ready to use.
type Inputs struct{ read int64 }

// Read reads one input to its end. It stops at the first byte over MaxInput or MaxInputs and returns
// ErrTooLarge. The error does not name the input, so callers add its name.
func (i *Inputs) Read(r io.Reader) ([]byte, error) {
	most := min(MaxInput, MaxInputs-i.read)
	text, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, err
	}
	switch i.read += int64(len(text)); {
	case i.read > MaxInputs:
		i.read = MaxInputs // every later Read fails as well, unless its input is empty
		return nil, fmt.Errorf("%w: a command reads %d MiB in all", ErrTooLarge, MaxInputs>>20)
	case len(text) > MaxInput:
		return nil, ErrInputTooLarge
	}
	return text, nil
}

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
