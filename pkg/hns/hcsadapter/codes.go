package hcsadapter

import (
	"errors"
	"fmt"

	"github.com/winnpm/winnpm/pkg/hns"
)

// ErrMissing says that this system has no usable HNS: a DLL or one of its
// exports is not there.
var ErrMissing = errors.New("the Host Networking Service is missing")

// Codes of HNS (golang.org/x/sys/windows, zerrors_windows.go, HCN_E_*) and of
// Windows.
const (
	codeNetworkNotFound  uint32 = 0x803B0001
	codeEndpointNotFound uint32 = 0x803B0002
	codePolicyNotFound   uint32 = 0x803B0008
	codeInvalidEndpoint  uint32 = 0x803B000C
	codeInvalidPolicy    uint32 = 0x803B000D
	codeInvalidType      uint32 = 0x803B000E
	codeRemoteEndpoint   uint32 = 0x803B000F
	codePolicyExists     uint32 = 0x803B0012
	codeUnsupported      uint32 = 0x803B0015
	codeInvalidJSON      uint32 = 0x803B001B
	codeInvalidReference uint32 = 0x803B001C
	codeInvalidIP        uint32 = 0x803B001E
	codeHasReferences    uint32 = 0x803B002C
	codeInvalidArgument  uint32 = 0x80070057 // E_INVALIDARG
	codeElementNotFound  uint32 = 0x80070490 // "Element not found.": of anything
)

// codeOf returns the HRESULT of an error, 0 when it has none.
func codeOf(err error) uint32 {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.code
	}
	return 0
}

// vanished reports whether an endpoint went away while it was read. HNS has
// been seen to answer with either code (azure-container-networking#1560,
// antrea#2301).
func vanished(err error) bool {
	code := codeOf(err)
	return code == codeEndpointNotFound || code == codeElementNotFound
}

// refusesContent reports whether a code says that HNS does not accept what the
// request contains. HCN_E_INVALID_NETWORK is not among them: it speaks of the
// network, and a set refused for it would be left out until the set changes.
func refusesContent(code uint32) bool {
	switch code {
	case codeInvalidPolicy, codeInvalidType, codeUnsupported, codeInvalidJSON,
		codeInvalidReference, codeInvalidIP, codeInvalidArgument:
		return true
	}
	return false
}

// refusesEndpoint reports whether a code says that this endpoint takes no
// policies: it is not attached, or of another node.
func refusesEndpoint(code uint32) bool {
	return code == codeInvalidEndpoint || code == codeRemoteEndpoint
}

// as puts an error of a call into a class.
func as(class, err error) error { return fmt.Errorf("%w: %w", class, err) }

// unavailable puts an error into the class of calls whose outcome is unknown.
func unavailable(err error) error {
	if errors.Is(err, hns.ErrUnavailable) {
		return err
	}
	return as(hns.ErrUnavailable, err)
}
