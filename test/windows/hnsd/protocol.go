package hnsd

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"unicode/utf16"
)

// The wire is described in test/windows/dll/hnsd.h.
const (
	requestHeader = 40 // bytes of a request before its strings, without the length
	replyHeader   = 20
	maxFrame      = 256 << 20
)

// request is one call of a DLL.
type request struct {
	op     uint32
	pid    uint32
	id     guid
	handle uint64
	text   [2]string
}

// reply is the answer to one.
type reply struct {
	code   uint32 // HRESULT
	handle uint64
	record *string // nil: NULL
	output *string // nil: NULL
}

// operation is one export of the DLLs.
type operation struct {
	name string
	run  func(s *Server, ctx context.Context, r request) (reply, error)
	// empty is the least output that clients can read: hcsshim follows the
	// pointer of a call that succeeded without looking at it. nil: no output.
	empty *string
}

const callHNS = "HNSCall"

// ops has every export, by its number in hnsd.h.
var ops = func() map[uint32]operation {
	array, object := "[]", "{}"
	return map[uint32]operation{
		1: {callHNS, (*Server).hnsCall, &object},

		10: {"HcnEnumerateNetworks", (*Server).enumerateNetworks, &array},
		11: {"HcnCreateNetwork", (*Server).createNetwork, nil},
		12: {"HcnOpenNetwork", (*Server).openNetwork, nil},
		13: {"HcnModifyNetwork", (*Server).modifyNetwork, nil},
		14: {"HcnQueryNetworkProperties", (*Server).queryNetwork, &object},
		15: {"HcnDeleteNetwork", (*Server).deleteNetwork, nil},
		16: {"HcnCloseNetwork", closeHandle(kindNetwork), nil},

		20: {"HcnEnumerateEndpoints", (*Server).enumerateEndpoints, &array},
		21: {"HcnCreateEndpoint", (*Server).createEndpoint, nil},
		22: {"HcnOpenEndpoint", (*Server).openEndpoint, nil},
		23: {"HcnModifyEndpoint", (*Server).modifyEndpoint, nil},
		24: {"HcnQueryEndpointProperties", (*Server).queryEndpoint, &object},
		25: {"HcnDeleteEndpoint", (*Server).deleteEndpoint, nil},
		26: {"HcnCloseEndpoint", closeHandle(kindEndpoint), nil},

		30: {"HcnEnumerateNamespaces", (*Server).enumerateNamespaces, &array},
		31: {"HcnCreateNamespace", (*Server).createNamespace, nil},
		32: {"HcnOpenNamespace", (*Server).openNamespace, nil},
		33: {"HcnModifyNamespace", (*Server).modifyNamespace, nil},
		34: {"HcnQueryNamespaceProperties", (*Server).queryNamespace, &object},
		35: {"HcnDeleteNamespace", (*Server).deleteNamespace, nil},
		36: {"HcnCloseNamespace", closeHandle(kindNamespace), nil},
	}
}()

// readRequest reads one frame.
func readRequest(from io.Reader) (request, error) {
	var length [4]byte
	if _, err := io.ReadFull(from, length[:]); err != nil {
		return request{}, err
	}
	n := binary.LittleEndian.Uint32(length[:])
	if n < requestHeader || n > maxFrame {
		return request{}, fmt.Errorf("a request of %d bytes", n)
	}
	frame := make([]byte, n)
	if _, err := io.ReadFull(from, frame); err != nil {
		return request{}, err
	}
	r := request{
		op:     binary.LittleEndian.Uint32(frame),
		pid:    binary.LittleEndian.Uint32(frame[4:]),
		id:     guid(frame[8:24]),
		handle: binary.LittleEndian.Uint64(frame[24:]),
	}
	len1 := uint64(binary.LittleEndian.Uint32(frame[32:]))
	len2 := uint64(binary.LittleEndian.Uint32(frame[36:]))
	texts := frame[requestHeader:]
	if len1+len2 != uint64(len(texts)) || len1%2 != 0 || len2%2 != 0 {
		return request{}, errors.New("the strings do not fill the request")
	}
	r.text = [2]string{decodeText(texts[:len1]), decodeText(texts[len1:])}
	return r, nil
}

// encode returns the frame.
func (a reply) encode() []byte {
	record, recordLen := encodeText(a.record)
	output, outputLen := encodeText(a.output)
	n := replyHeader + len(record) + len(output)
	out := make([]byte, 0, 4+n)
	out = binary.LittleEndian.AppendUint32(out, uint32(n))
	out = binary.LittleEndian.AppendUint32(out, a.code)
	out = binary.LittleEndian.AppendUint64(out, a.handle)
	out = binary.LittleEndian.AppendUint32(out, uint32(recordLen))
	out = binary.LittleEndian.AppendUint32(out, uint32(outputLen))
	out = append(out, record...)
	return append(out, output...)
}

func decodeText(b []byte) string {
	units := make([]uint16, len(b)/2)
	for i := range units {
		units[i] = binary.LittleEndian.Uint16(b[2*i:])
	}
	return string(utf16.Decode(units))
}

// encodeText returns the bytes of a string and its length, -1 for NULL.
func encodeText(s *string) ([]byte, int32) {
	if s == nil {
		return nil, -1
	}
	var out []byte
	for _, r := range *s {
		for _, unit := range utf16.AppendRune(nil, r) {
			out = binary.LittleEndian.AppendUint16(out, unit)
		}
	}
	if len(out) > math.MaxInt32 {
		panic("BUG: a reply beyond 2 GB")
	}
	return out, int32(len(out))
}
