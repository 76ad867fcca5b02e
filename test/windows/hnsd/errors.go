package hnsd

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/winnpm/winnpm/pkg/hns"
)

// HRESULTs that the boundary itself gives (golang.org/x/sys/windows,
// zerrors_windows.go); the simulator has those of policies.
const (
	codeNotImplemented     uint32 = 0x80004001 // E_NOTIMPL
	codeFail               uint32 = 0x80004005 // E_FAIL
	codeInvalidHandle      uint32 = 0x80070006 // ERROR_INVALID_HANDLE
	codeInvalidArgument    uint32 = 0x80070057 // E_INVALIDARG
	codeElementNotFound    uint32 = 0x80070490 // ERROR_NOT_FOUND
	codeCallFailed         uint32 = 0x800706BE // RPC_S_CALL_FAILED
	codeNetworkNotFound    uint32 = 0x803B0001 // HCN_E_NETWORK_NOT_FOUND
	codeEndpointNotFound   uint32 = 0x803B0002 // HCN_E_ENDPOINT_NOT_FOUND
	codePolicyNotFound     uint32 = 0x803B0008 // HCN_E_POLICY_NOT_FOUND
	codeInvalidPolicy      uint32 = 0x803B000D // HCN_E_INVALID_POLICY
	codeInvalidPolicyType  uint32 = 0x803B000E // HCN_E_INVALID_POLICY_TYPE
	codeNetworkExists      uint32 = 0x803B0010 // HCN_E_NETWORK_ALREADY_EXISTS
	codePolicyExists       uint32 = 0x803B0012 // HCN_E_POLICY_ALREADY_EXISTS
	codeEndpointAttached   uint32 = 0x803B0014 // HCN_E_ENDPOINT_ALREADY_ATTACHED
	codeRequestUnsupported uint32 = 0x803B0015 // HCN_E_REQUEST_UNSUPPORTED
	codeInvalidJSON        uint32 = 0x803B001B // HCN_E_INVALID_JSON
	codeInvalidIP          uint32 = 0x803B001E // HCN_E_INVALID_IP
	codeHasReferences      uint32 = 0x803B002C // HCN_E_ENTITY_HAS_REFERENCES
	codeAddressInvalid     uint32 = 0x803B002F // HCN_E_ADDR_INVALID_OR_RESERVED
)

// refused is a call that the boundary does not do.
type refused struct {
	code uint32
	text string
}

// Error implements error.
func (r *refused) Error() string { return r.text }

func refuse(code uint32, format string, args ...any) error {
	return &refused{code, fmt.Sprintf(format, args...)}
}

// fail returns a reply with an error record in the form of the HNS schema's
// Response.
func fail(code uint32, text string) reply {
	record, err := json.Marshal(struct {
		Success   bool
		Error     string
		ErrorCode uint32
	}{false, text, code})
	if err != nil {
		panic("BUG: a record always encodes: " + err.Error())
	}
	shown := string(record)
	return reply{code: code, record: &shown}
}

// refusal returns the reply to a call that failed.
func refusal(err error) reply {
	var own *refused
	if errors.As(err, &own) {
		return fail(own.code, own.text)
	}
	return fail(codeOf(err), err.Error())
}

// codeOf returns the HRESULT of an error of the simulator. Those of injected
// faults may be no more than a class.
func codeOf(err error) uint32 {
	var op *hns.OpError
	if errors.As(err, &op) && op.Code != 0 {
		return op.Code
	}
	switch {
	case errors.Is(err, hns.ErrNotFound) && op != nil:
		switch op.Kind {
		case hns.KindNetwork:
			return codeNetworkNotFound
		case hns.KindEndpoint:
			return codeEndpointNotFound
		default:
			return codePolicyNotFound
		}
	case errors.Is(err, hns.ErrNotFound):
		return codeElementNotFound
	case errors.Is(err, hns.ErrAlreadyExists):
		return codePolicyExists
	case errors.Is(err, hns.ErrInUse):
		return codeHasReferences
	case errors.Is(err, hns.ErrInvalid):
		return codeInvalidPolicy
	case errors.Is(err, hns.ErrUnavailable):
		return codeCallFailed
	}
	return codeFail
}
