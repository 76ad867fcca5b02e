// Package bounded limits untrusted input while it is read, before it is decoded. A few bytes of
// compressed JSON can decode to gigabytes in memory: an empty object is two bytes of text and takes
// some hundred bytes in memory.
package bounded

import (
	"errors"
	"fmt"
	"io"
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
