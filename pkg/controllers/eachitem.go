package controllers

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// itemSource lists the objects of a cluster one by one. client-go would decode a list as a whole,
// so a hundred large policies of one tenant would take more memory than the agent may have. Paging
// does not help: small pages need thousands of requests to list all pods, and the API server reads
// pages from etcd instead of its cache.
type itemSource struct {
	*cache.ListWatch
	client *rest.RESTClient
	kind   itemKind
}

// itemKind says how the objects of one kind are read.
type itemKind struct {
	resource string                                       // its name in paths: pods
	list     string                                       // the kind of its list: PodList
	item     func(content []byte) (runtime.Object, error) // decodes one object from protobuf
}

// podItems reads pods.
var podItems = itemKind{
	resource: "pods", list: "PodList",
	item: func(content []byte) (runtime.Object, error) {
		pod := &corev1.Pod{}
		return pod, pod.Unmarshal(content)
	},
}

var _ itemLister = itemSource{}

func newItemSource(c *rest.RESTClient, kind itemKind) itemSource {
	return itemSource{cache.NewListWatchFromClient(c, kind.resource, metav1.NamespaceAll, fields.Everything()), c, kind}
}

// ListEach implements itemLister. It fails with errNoProtobuf if the server answers without
// protobuf.
func (s itemSource) ListEach(ctx context.Context, options metav1.ListOptions, yield func(runtime.Object) error) (metav1.ListMeta, error) {
	body, err := s.client.Get().Resource(s.kind.resource).VersionedParams(&options, metav1.ParameterCodec).Stream(ctx)
	if err != nil {
		return metav1.ListMeta{}, err
	}
	defer func() { _ = body.Close() }() // it was only read
	list, err := s.kind.each(bufio.NewReaderSize(body, 1<<16), yield)
	if err != nil {
		return list, fmt.Errorf("list %s: %w", s.kind.resource, err)
	}
	return list, nil
}

// protobufMagic begins what Kubernetes encodes with protobuf. A message of type
// runtime.Unknown follows.
const protobufMagic = "k8s\x00"

// errNoProtobuf is returned for an answer that is not encoded with protobuf.
var errNoProtobuf = errors.New("the answer is not protobuf")

// each decodes a list and calls yield for each object. It returns an error if the list is cut
// off, or if the answer is of another kind. Such an answer, read as a list, would have no
// objects, and the caller would take all known objects for deleted.
func (k itemKind) each(r *bufio.Reader, yield func(runtime.Object) error) (list metav1.ListMeta, err error) {
	switch magic, err := r.Peek(len(protobufMagic)); {
	case err != nil && strings.HasPrefix(protobufMagic, string(magic)):
		return list, err
	case string(magic) != protobufMagic:
		return list, errNoProtobuf
	}
	_, _ = r.Discard(len(protobufMagic)) // cannot fail after Peek
	const types, raw = 1, 2              // field numbers of runtime.Unknown, which come in this order
	var is runtime.TypeMeta
	for {
		field, size, err := delimited(r)
		if err != nil {
			return list, fmt.Errorf("no list: %w", err)
		}
		if field == raw && is.Kind == k.list {
			// The remaining fields describe an encoding that the API server does not use.
			return k.items(&io.LimitedReader{R: r, N: size}, yield)
		}
		if field != types {
			return list, fmt.Errorf("the answer is of kind %q", is.Kind)
		}
		content, err := read(r, size, nil)
		if err == nil {
			err = is.Unmarshal(content)
		}
		if err != nil {
			return list, fmt.Errorf("no list: %w", err)
		}
	}
}

// items decodes a list up to the end of limited, and calls yield for each object.
func (k itemKind) items(limited *io.LimitedReader, yield func(runtime.Object) error) (list metav1.ListMeta, err error) {
	const listMeta, item = 1, 2 // field numbers of every list type
	r := bufio.NewReaderSize(limited, 1<<16)
	var content []byte
	for limited.N > 0 || r.Buffered() > 0 {
		field, size, err := delimited(r)
		if err != nil {
			return list, err
		}
		content, err = read(r, size, content)
		if err != nil {
			return list, err
		}
		switch field {
		case listMeta:
			err = list.Unmarshal(content)
		case item:
			var object runtime.Object
			if object, err = k.item(content); err == nil {
				err = yield(object)
			}
		}
		if err != nil {
			return list, err
		}
	}
	return list, nil
}

// maxObject is larger than any object, in bytes.
const maxObject = 64 << 20

// read returns the next size bytes. It reuses the memory of earlier, the result of a previous call,
// if that is large enough.
func read(r io.Reader, size int64, earlier []byte) ([]byte, error) {
	if size > maxObject {
		return nil, fmt.Errorf("an object of %d bytes", size)
	}
	content := earlier[:0]
	if int64(cap(content)) < size {
		content = make([]byte, size)
	}
	content = content[:size]
	_, err := io.ReadFull(r, content)
	return content, err
}

// delimited reads the number of a field and the length of its content. It returns an error
// for a field without a length: lists and their envelopes have embedded messages and strings
// only.
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
		return 0, 0, err
	}
	if n > math.MaxInt64 {
		return 0, 0, fmt.Errorf("field %d has %d bytes", key>>3, n)
	}
	return int(key >> 3), int64(n), nil
}
