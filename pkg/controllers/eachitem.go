package controllers

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// itemSource lists the objects of a cluster one by one. An API server that does not stream
// a first list as a watch answers with one message. Decoded as a whole, that message would
// take several times the memory that the agent needs otherwise.
type itemSource struct {
	*cache.ListWatch
	client *rest.RESTClient
	kind   itemKind
}

// itemKind says how the objects of one kind are read.
type itemKind struct {
	resource string                                       // as in paths: pods
	list     string                                       // kind of a list of them
	whole    func() runtime.Object                        // a list without any
	item     func(content []byte) (runtime.Object, error) // decodes one from protobuf
	json     func(content []byte) (runtime.Object, error) // decodes one from JSON; nil: lists of JSON are decoded whole
	add      func(list, item runtime.Object) error        // puts one into such a list
}

var _ itemLister = itemSource{}

func newItemSource(c *rest.RESTClient, kind itemKind) itemSource {
	return itemSource{cache.NewListWatchFromClient(c, kind.resource, metav1.NamespaceAll, fields.Everything()), c, kind}
}

// ListEach implements itemLister.
func (s itemSource) ListEach(ctx context.Context, options metav1.ListOptions, yield func(runtime.Object) error) (metav1.ListMeta, error) {
	body, err := s.client.Get().Resource(s.kind.resource).VersionedParams(&options, metav1.ParameterCodec).Stream(ctx)
	if err != nil {
		return metav1.ListMeta{}, err
	}
	defer func() { _ = body.Close() }() // it was only read
	return s.kind.each(bufio.NewReaderSize(body, 1<<16), yield)
}

// ListWithContext lists the objects whole, for who wants them all at once; of each
// there is what is decoded of it.
func (s itemSource) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list := s.kind.whole()
	listMeta, err := s.ListEach(ctx, options, func(item runtime.Object) error { return s.kind.add(list, item) })
	if err != nil {
		return nil, err
	}
	into, err := meta.ListAccessor(list)
	if err != nil {
		return nil, err
	}
	into.SetResourceVersion(listMeta.ResourceVersion)
	into.SetContinue(listMeta.Continue)
	return list, nil
}

// protobufMagic begins what Kubernetes encodes with protobuf. A message of type
// runtime.Unknown follows.
const protobufMagic = "k8s\x00"

// each decodes a list. It returns an error unless the list came to its end.
func (k itemKind) each(r *bufio.Reader, yield func(runtime.Object) error) (metav1.ListMeta, error) {
	var list metav1.ListMeta
	if magic, err := r.Peek(len(protobufMagic)); err != nil {
		return list, k.failed(err)
	} else if string(magic) != protobufMagic {
		return k.eachJSON(r, yield)
	}
	_, _ = r.Discard(len(protobufMagic)) // what was peeked at is there
	const types, raw = 1, 2              // fields of runtime.Unknown
	const kindName = 2                   // field of runtime.TypeMeta
	kind := ""
	for {
		field, size, err := delimited(r)
		if err != nil {
			return list, k.failed(fmt.Errorf("no list: %w", noEOF(err)))
		}
		switch field {
		case types:
			err = eachField(r, size, func(field int, content []byte) error {
				if field == kindName {
					kind = string(content)
				}
				return nil
			})
		case raw:
			// What follows says how the list is encoded: not at all.
			if err := k.is(kind); err != nil {
				return list, err
			}
			return k.eachOf(r, size, yield)
		default:
			_, err = io.CopyN(io.Discard, r, size)
		}
		if err != nil {
			return list, k.failed(err)
		}
	}
}

// eachOf decodes what a list has of its own, which is that long.
func (k itemKind) eachOf(r *bufio.Reader, size int64, yield func(runtime.Object) error) (list metav1.ListMeta, err error) {
	const listMeta, item = 1, 2 // fields of every list
	err = eachField(r, size, func(field int, content []byte) error {
		switch field {
		case listMeta:
			return list.Unmarshal(content)
		case item:
			object, err := k.item(content)
			if err != nil {
				return err
			}
			return yield(object)
		}
		return nil
	})
	if err != nil {
		return list, k.failed(err)
	}
	return list, nil
}

func (k itemKind) failed(err error) error { return fmt.Errorf("list %s: %w", k.resource, noEOF(err)) }

// is returns an error for an answer of another kind. Such an answer, read as a list, would
// have no objects, and all known objects would count as deleted.
func (k itemKind) is(kind string) error {
	if kind != k.list {
		return k.failed(fmt.Errorf("the answer is of kind %q", kind))
	}
	return nil
}

// eachField reads a message of size bytes. The content is good until visit
// returns.
func eachField(r *bufio.Reader, size int64, visit func(field int, content []byte) error) error {
	limited := &io.LimitedReader{R: r, N: size}
	message := bufio.NewReaderSize(limited, 1<<16)
	var content []byte
	for limited.N > 0 || message.Buffered() > 0 {
		field, size, err := delimited(message)
		if err != nil {
			return err
		}
		if size > maxObject {
			return fmt.Errorf("an object of %d bytes", size)
		}
		if int64(cap(content)) < size {
			content = make([]byte, size)
		}
		content = content[:size]
		if _, err := io.ReadFull(message, content); err != nil {
			return err
		}
		if err := visit(field, content); err != nil {
			return err
		}
	}
	return nil
}

// maxObject is more than any object has in bytes.
const maxObject = 64 << 20

// delimited reads the key of a field and its length. Messages and texts are all
// that lists and their envelopes have.
func delimited(r *bufio.Reader) (field int, size int64, err error) {
	key, err := binary.ReadUvarint(r)
	if err != nil {
		return 0, 0, err
	}
	if key&7 != 2 {
		return 0, 0, fmt.Errorf("field %d has wire type %d, want 2", key>>3, key&7)
	}
	n, err := binary.ReadUvarint(r)
	if err != nil {
		return 0, 0, noEOF(err)
	}
	if n > math.MaxInt64 {
		return 0, 0, fmt.Errorf("field %d has %d bytes", key>>3, n)
	}
	return int(key >> 3), int64(n), nil
}

// noEOF makes of an end what it is in the midst of a message.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// eachJSON reads a list of a server that has no protobuf. It is decoded whole, or of a kind
// that never has protobuf object by object.
func (k itemKind) eachJSON(r io.Reader, yield func(runtime.Object) error) (metav1.ListMeta, error) {
	if k.json != nil {
		return k.eachOfJSON(json.NewDecoder(r), yield)
	}
	var read metav1.ListMeta
	list := k.whole()
	if err := json.NewDecoder(r).Decode(list); err != nil {
		return read, k.failed(err)
	}
	if err := k.is(list.GetObjectKind().GroupVersionKind().Kind); err != nil {
		return read, err
	}
	if of, err := meta.ListAccessor(list); err == nil { // every list has one
		read.ResourceVersion, read.Continue = of.GetResourceVersion(), of.GetContinue()
	}
	return read, meta.EachListItem(list, yield)
}

// eachOfJSON reads a list whose objects it decodes one by one. The kind of the list may
// come after them, so what was passed on counts only when there is no error.
func (k itemKind) eachOfJSON(d *json.Decoder, yield func(runtime.Object) error) (metav1.ListMeta, error) {
	var list metav1.ListMeta
	kind := ""
	err := eachEntry(d, '{', func(name string) error {
		switch name {
		case "kind":
			return d.Decode(&kind)
		case "metadata":
			return d.Decode(&list)
		case "items":
			return eachEntry(d, '[', func(string) error {
				var content json.RawMessage
				if err := d.Decode(&content); err != nil {
					return err
				}
				object, err := k.json(content)
				if err != nil {
					return err
				}
				return yield(object)
			})
		}
		var ignored json.RawMessage
		return d.Decode(&ignored)
	})
	if err != nil {
		return list, k.failed(err)
	}
	return list, k.is(kind)
}

// eachEntry reads an object, whose names it passes on, or a list. visit reads the value. null
// is neither, and has no entries.
func eachEntry(d *json.Decoder, open json.Delim, visit func(name string) error) error {
	switch begin, err := d.Token(); {
	case err != nil:
		return err
	case begin == nil:
		return nil
	case begin != open:
		return fmt.Errorf("%v where %v begins", begin, open)
	}
	for d.More() {
		name := ""
		if open == '{' {
			token, err := d.Token()
			if err != nil {
				return err
			}
			name, _ = token.(string) // the decoder takes no other name
		}
		if err := visit(name); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}
