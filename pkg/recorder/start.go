package recorder

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"slices"

	"github.com/winnpm/winnpm/pkg/state"
)

// start is the state at the beginning of a segment.
type start struct {
	ready chan struct{} // closed when text is there, or it was lost
	text  []byte        // compressed
}

// size is how much memory it takes.
func (s *start) size() int {
	if s == nil {
		return 0
	}
	return len(s.text)
}

// packed is how many elements of a list are written at a time: JSON of a whole
// cluster is never in memory.
const packed = 256

// pack writes a dump as it is kept: first without its long lists, then these, in
// parts. An empty part ends a list.
func pack(d state.Dump) ([]byte, error) {
	var b bytes.Buffer
	// The fastest level: there are few cores, and events want them.
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	to := json.NewEncoder(z)
	head := d
	head.Sets, head.Endpoints, head.Policies, head.Pods = d.Sets[:0], d.Endpoints[:0], d.Policies[:0], d.Pods[:0]
	err = to.Encode(head)
	packList(to, d.Sets, &err)
	packList(to, d.Endpoints, &err)
	packList(to, d.Policies, &err)
	packList(to, d.Pods, &err)
	if err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return bytes.Clone(b.Bytes()), nil // without the buffer's reserve
}

func packList[T any](to *json.Encoder, list []T, err *error) {
	for part := range slices.Chunk(list, packed) {
		if *err == nil {
			*err = to.Encode(part)
		}
	}
	if *err == nil {
		*err = to.Encode([]T{})
	}
}

// unpack reads back the state, nil when nothing was known. It must be ready.
func (s *start) unpack() *state.Dump {
	if s == nil {
		return nil
	}
	z, err := gzip.NewReader(bytes.NewReader(s.text))
	if err != nil {
		panic("BUG: what pack wrote is no gzip: " + err.Error())
	}
	d, err := unpack(z)
	if err != nil {
		panic("BUG: what pack wrote is no dump: " + err.Error())
	}
	return d
}

func unpack(text io.Reader) (*state.Dump, error) {
	from := json.NewDecoder(text)
	d := &state.Dump{}
	err := from.Decode(d)
	unpackList(from, &d.Sets, &err)
	unpackList(from, &d.Endpoints, &err)
	unpackList(from, &d.Policies, &err)
	unpackList(from, &d.Pods, &err)
	return d, err
}

func unpackList[T any](from *json.Decoder, list *[]T, err *error) {
	for *err == nil {
		var part []T
		if *err = from.Decode(&part); len(part) == 0 {
			return
		}
		*list = append(*list, part...)
	}
}
