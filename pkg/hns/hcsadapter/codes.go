package hcsadapter

import (
	"errors"
	"fmt"

	"github.com/winnpm/winnpm/pkg/hns"
)

// ErrMissing says that this system has no usable HNS: a DLL or one of its exports is missing.
var ErrMissing = errors.New("the Host Networking Service of Windows Server 2022 or later is missing")

// Codes that tell which object an answer is about. The meaning of every other code is its class in
// the table of hns.LookupCode.
const (
	codeNetworkNotFound  uint32 = 0x803B0001
	codeEndpointNotFound uint32 = 0x803B0002
	codePolicyNotFound   uint32 = 0x803B0008
	codeElementNotFound  uint32 = 0x80070490 // "Element not found.": any object
)

// codeOf returns the HRESULT of an error, or 0.
func codeOf(err error) uint32 {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.code
	}
	return 0
}

// classOf returns the class of an error's code.
func classOf(err error) hns.CodeClass { return hns.LookupCode(codeOf(err)).Class }

// vanished reports whether an endpoint disappeared while it was read. HNS has been seen to answer
// with either code (azure-container-networking#1560, antrea#2301).
func vanished(err error) bool {
	code := codeOf(err)
	return code == codeEndpointNotFound || code == codeElementNotFound
}

// as wraps an error in a class.
func as(class, err error) error { return fmt.Errorf("%w: %w", class, err) }

// unavailable wraps the error of a call that was not made or not completed in ErrUnavailable.
func unavailable(err error) error {
	if errors.Is(err, hns.ErrUnavailable) {
		return err
	}
	return as(hns.ErrUnavailable, err)
}

// unread wraps the error of a read that a call needs first in ErrUnavailable: the answer of HNS to
// the read is no answer to the call.
func unread(err error) error { return unavailable(fmt.Errorf("read the network first: %w", err)) }

// unknown returns the class of an error that is neither a rejection nor "not found".
// ErrUnavailable: there was no answer, or our network does not exist. ErrUnlisted: HNS answered.
func unknown(err error) error {
	if errors.Is(err, hns.ErrUnavailable) || errors.Is(err, errNoNetwork) || classOf(err) == hns.BrokeOff {
		return unavailable(err)
	}
	return as(hns.ErrUnlisted, err)
}
