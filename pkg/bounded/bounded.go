// Package bounded counts JSON of others while it is read, before anybody decodes it.
// A few bytes of packed text may stand for gigabytes of values: an empty object is
// two bytes of text and some hundred in memory.
package bounded

import (
	"errors"
	"fmt"
	"io"
)

// ErrTooMuch is text with more in it than its Limits allow.
var ErrTooMuch = errors.New("it has more in it than any agent writes")

// Limits are what a text has at most. All must be above 0.
type Limits struct {
	Bytes   int64 // of text
	Objects int   // JSON objects, which become structs
	Values  int   // entries of objects and lists, at whatever depth
	Depth   int   // of objects and lists in each other
}

// OfAnAgent are what a dump or a recording of an agent has at most that is read. The dump
// of a node in a cluster of 10,000 pods and 1,000 policies has 8 MB, 66,000 objects and
// 400,000 values; a simulation in which all of these pods are on one node 69 MB, 274,000
// and 2.2 million; a recording after the start of the first one 7 MB, 80,000 and 360,000,
// and never more than 64 MiB. What is within costs 650 MB of memory at most.
var OfAnAgent = Limits{Bytes: 128 << 20, Objects: 500_000, Values: 4_000_000, Depth: 64}

// Reader returns a reader of the text of r, which fails with ErrTooMuch at the first
// byte that is over a limit. Nothing of a json.Decoder's value was decoded then, as
// a decoder reads a value to its end first. What is no JSON is counted like it.
func Reader(r io.Reader, l Limits) io.Reader { return &counter{r: r, limits: l} }

// counter is the reader. It knows strings and brackets, no more.
type counter struct {
	r      io.Reader
	limits Limits
	err    error // of a limit, for good

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

// count takes one byte of the text.
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
