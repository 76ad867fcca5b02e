package controllers

import (
	"encoding/binary"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// lightPod is a Pod that decodes only the fields that are read here. Most of a pod is its
// containers and the history of its fields.
type lightPod struct{ corev1.Pod }

// addLightPods registers pods for a client that only reads them.
func addLightPods(scheme *runtime.Scheme) error {
	scheme.AddKnownTypeWithName(corev1.SchemeGroupVersion.WithKind("Pod"), &lightPod{})
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	return nil
}

// wireFields are fields of a protobuf message by number, each with the fields of
// its message that are of use; nil: all of them.
type wireFields map[uint64]wireFields

// podFields are the fields that PodFrom and a Reflector read. The numbers never
// change.
var podFields = func() wireFields {
	hostProcess := wireFields{4: nil}
	container := wireFields{6: nil /* ports */, 15: {10: hostProcess /* windowsOptions */} /* securityContext */, 24: nil /* restartPolicy */}
	return wireFields{
		1: { // metadata
			1: nil /* name */, 3: nil /* namespace */, 5: nil /* uid */, 6: nil, /* resourceVersion */
			8: nil /* creationTimestamp */, 9: nil /* deletionTimestamp */, 10: nil, /* deletionGracePeriodSeconds */
			11: nil, // labels
			12: nil, // annotations: the end of a streamed first list is one
		},
		2: { // spec
			2: container, 20: container /* initContainers */, 4: nil /* terminationGracePeriodSeconds */, 10: nil /* nodeName */, 11: nil, /* hostNetwork */
			14: {8: hostProcess /* windowsOptions */} /* securityContext */, 36: nil, /* os */
		},
		3: { // status
			1: nil /* phase */, 5: nil /* hostIP */, 6: nil /* podIP */, 7: nil /* startTime */, 12: nil, /* podIPs */
			16: nil, // hostIPs
		},
	}
}()

// Unmarshal decodes from protobuf.
func (p *lightPod) Unmarshal(data []byte) error {
	light, err := onlyFields(make([]byte, 0, 1024), data, podFields)
	if err != nil {
		return fmt.Errorf("decode a pod: %w", err)
	}
	return p.Pod.Unmarshal(light)
}

var errCutOff = errors.New("the message is cut off")

// lengthSize is the size of the lengths that onlyFields writes: wide enough for
// every object, and known before the content is.
const lengthSize = 4

// onlyFields appends a message with nothing but some of its fields.
func onlyFields(out, message []byte, fields wireFields) ([]byte, error) {
	for len(message) > 0 {
		key, n := binary.Uvarint(message)
		if n <= 0 {
			return nil, errCutOff
		}
		keySize := n
		size, content, err := fieldOf(key&7, message[n:])
		if err != nil {
			return nil, err
		}
		inner, wanted := fields[key>>3]
		switch {
		case !wanted:
		case inner == nil || key&7 != 2:
			out = append(out, message[:keySize+size]...)
		default:
			out = append(out, message[:keySize]...)
			at := len(out)
			out = append(out, make([]byte, lengthSize)...)
			if out, err = onlyFields(out, content, inner); err != nil {
				return nil, err
			}
			if err := putLength(out[at:]); err != nil {
				return nil, err
			}
		}
		message = message[keySize+size:]
	}
	return out, nil
}

// fieldOf returns how many bytes a field of a wire type is after its key, and what is
// in it where that has a length before it.
func fieldOf(wire uint64, rest []byte) (size int, content []byte, err error) {
	switch wire {
	case 0:
		_, size = binary.Uvarint(rest)
	case 1:
		size = 8
	case 2:
		length, n := binary.Uvarint(rest)
		if n <= 0 || length > uint64(len(rest)-n) {
			return 0, nil, errCutOff
		}
		size = n + int(length)
		return size, rest[n:size], nil
	case 5:
		size = 4
	default:
		return 0, nil, fmt.Errorf("a field is of type %d", wire)
	}
	if size <= 0 || size > len(rest) {
		return 0, nil, errCutOff
	}
	return size, nil, nil
}

// putLength writes how long a message is into the room before it.
func putLength(message []byte) error {
	length := len(message) - lengthSize
	if length >= 1<<(7*lengthSize) {
		return fmt.Errorf("a field of %d bytes", length)
	}
	for i := range lengthSize { // a varint may be wider than it has to be
		message[i] = byte(length>>(7*i))&0x7f | 0x80
	}
	message[lengthSize-1] &= 0x7f
	return nil
}
