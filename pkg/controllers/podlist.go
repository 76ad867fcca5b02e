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

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// podSource lists the pods of a cluster one by one. An API server that does not
// stream a first list as a watch answers with one message. Whole, and decoded,
// that is several times the memory that the agent ever needs otherwise.
type podSource struct {
	*cache.ListWatch
	client *rest.RESTClient
}

var _ podLister = podSource{}

func newPodSource(c *rest.RESTClient) podSource {
	return podSource{cache.NewListWatchFromClient(c, "pods", metav1.NamespaceAll, fields.Everything()), c}
}

// ListEach implements podLister.
func (s podSource) ListEach(ctx context.Context, options metav1.ListOptions, yield func(*corev1.Pod) error) (metav1.ListMeta, error) {
	body, err := s.client.Get().Resource("pods").VersionedParams(&options, metav1.ParameterCodec).Stream(ctx)
	if err != nil {
		return metav1.ListMeta{}, err
	}
	defer func() { _ = body.Close() }() // it was only read
	return eachPod(bufio.NewReaderSize(body, 1<<16), yield)
}

// ListWithContext lists the pods whole, for who wants them all at once; of each there
// is what PodFrom reads.
func (s podSource) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list := &corev1.PodList{}
	meta, err := s.ListEach(ctx, options, func(pod *corev1.Pod) error {
		list.Items = append(list.Items, *pod)
		return nil
	})
	if err != nil {
		return nil, err
	}
	list.ListMeta = meta
	return list, nil
}

// protobufMagic begins what Kubernetes encodes with protobuf. A message of type
// runtime.Unknown follows.
const protobufMagic = "k8s\x00"

// eachPod decodes a PodList. It returns an error unless the list came to its end.
func eachPod(r *bufio.Reader, yield func(*corev1.Pod) error) (metav1.ListMeta, error) {
	var meta metav1.ListMeta
	if magic, err := r.Peek(len(protobufMagic)); err != nil {
		return meta, fmt.Errorf("list pods: %w", noEOF(err))
	} else if string(magic) != protobufMagic {
		return eachPodJSON(r, yield)
	}
	_, _ = r.Discard(len(protobufMagic)) // what was peeked at is there
	const types, raw = 1, 2              // fields of runtime.Unknown
	const kindName = 2                   // field of runtime.TypeMeta
	const listMeta, item = 1, 2          // fields of PodList
	kind := ""
	for {
		field, size, err := delimited(r)
		if err != nil {
			return meta, fmt.Errorf("list pods: no list: %w", noEOF(err))
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
			if err := podList(kind); err != nil {
				return meta, err
			}
			err := eachField(r, size, func(field int, content []byte) error {
				switch field {
				case listMeta:
					return meta.Unmarshal(content)
				case item:
					pod := &lightPod{}
					if err := pod.Unmarshal(content); err != nil {
						return err
					}
					return yield(&pod.Pod)
				}
				return nil
			})
			if err != nil {
				return meta, fmt.Errorf("list pods: %w", noEOF(err))
			}
			return meta, nil // what follows says how the list is encoded: not at all
		default:
			_, err = io.CopyN(io.Discard, r, size)
		}
		if err != nil {
			return meta, fmt.Errorf("list pods: %w", noEOF(err))
		}
	}
}

// podList returns an error for an answer of another kind. Read as a list it
// would have no pods, and all that are there would count as deleted.
func podList(kind string) error {
	if kind != "PodList" {
		return fmt.Errorf("list pods: the answer is of kind %q", kind)
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
		return 0, 0, fmt.Errorf("field %d is of type %d", key>>3, key&7)
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

func eachPodJSON(r io.Reader, yield func(*corev1.Pod) error) (metav1.ListMeta, error) {
	var list corev1.PodList
	if err := json.NewDecoder(r).Decode(&list); err != nil {
		return list.ListMeta, fmt.Errorf("list pods: %w", noEOF(err))
	}
	if err := podList(list.Kind); err != nil {
		return list.ListMeta, err
	}
	for i := range list.Items {
		if err := yield(&list.Items[i]); err != nil {
			return list.ListMeta, err
		}
	}
	return list.ListMeta, nil
}
