package hnsd

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"

	"github.com/Microsoft/go-winio/pkg/guid"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnstest"
)

// The wire is described in test/windows/dll/hnsd.h.
type (
	requestHead struct {
		Length, Op, PID uint32
		ID              [16]byte
		Handle          uint64
		Len             [2]uint32
	}
	replyHead struct {
		Length, Code   uint32
		Handle         uint64
		Record, Output int32
	}
)

// request is one call of a DLL.
type request struct {
	operation
	id     string // GUID in capitals; empty: NULL
	handle uint64
	text   string
}

// readRequest reads one frame.
func readRequest(from io.Reader) (request, error) {
	var head requestHead
	if err := binary.Read(from, binary.LittleEndian, &head); err != nil {
		return request{}, err
	}
	if head.Length != uint32(binary.Size(head)-4)+head.Len[0]+head.Len[1] {
		return request{}, fmt.Errorf("the frame has %d bytes, its texts %d", head.Length, head.Len)
	}
	text := make([]uint16, (head.Len[0]+head.Len[1])/2)
	if err := binary.Read(from, binary.LittleEndian, text); err != nil {
		return request{}, err
	}
	r := request{operation: ops[head.Op], handle: head.Handle, text: string(utf16.Decode(text))}
	if head.ID != [16]byte{} {
		r.id = strings.ToUpper(guid.FromWindowsArray(head.ID).String())
	}
	return r, nil
}

// frame returns the frame of an answer, in which an empty text is NULL.
func frame(a hnstest.CallAnswer) []byte {
	record, output := utf16.Encode([]rune(a.Record)), utf16.Encode([]rune(a.Output))
	size := func(text []uint16) int32 {
		if len(text) == 0 {
			return -1
		}
		return int32(2 * len(text))
	}
	head := replyHead{Code: a.Code, Handle: a.Handle, Record: size(record), Output: size(output)}
	head.Length = uint32(binary.Size(head) - 4 + binary.Size(record) + binary.Size(output))
	var out bytes.Buffer
	for _, part := range []any{head, record, output} {
		_ = binary.Write(&out, binary.LittleEndian, part) // writing to a buffer does not fail
	}
	return out.Bytes()
}

// HRESULTs that this package returns itself (golang.org/x/sys/windows, zerrors_windows.go). The simulator
// has the HRESULTs for policies.
const (
	codeFail               uint32 = 0x80004005 // E_FAIL
	codeInvalidHandle      uint32 = 0x80070006 // ERROR_INVALID_HANDLE
	codeElementNotFound    uint32 = 0x80070490 // ERROR_NOT_FOUND
	codeNetworkNotFound    uint32 = 0x803B0001 // HCN_E_NETWORK_NOT_FOUND
	codeEndpointNotFound   uint32 = 0x803B0002 // HCN_E_ENDPOINT_NOT_FOUND
	codeNetworkExists      uint32 = 0x803B0010 // HCN_E_NETWORK_ALREADY_EXISTS
	codeEndpointAttached   uint32 = 0x803B0014 // HCN_E_ENDPOINT_ALREADY_ATTACHED
	codeRequestUnsupported uint32 = 0x803B0015 // HCN_E_REQUEST_UNSUPPORTED
	codeInvalidJSON        uint32 = 0x803B001B // HCN_E_INVALID_JSON
	codeHasReferences      uint32 = 0x803B002C // HCN_E_ENTITY_HAS_REFERENCES
)

func refuse(code uint32, format string, args ...any) error {
	return &hns.OpError{Op: "hnsd", Code: code, Err: fmt.Errorf(format, args...)}
}

// encode returns the output with v as JSON. Settings are as the client sent them, without the white space
// between tokens, which HNS does not keep either.
func encode(v any) hnstest.CallAnswer {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("BUG: what the server shows always encodes: " + err.Error())
	}
	return hnstest.CallAnswer{Output: strings.TrimSuffix(b.String(), "\n")}
}

// decode decodes strict JSON: an unknown key is an error of the client.
func decode(text string, into any) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return refuse(codeInvalidJSON, "%w in %.200q", err, text)
	}
	return nil
}
