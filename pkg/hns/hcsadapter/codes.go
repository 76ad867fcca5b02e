package hcsadapter

import (
	"errors"
	"fmt"

	"github.com/winnpm/winnpm/pkg/hns"
)

// ErrMissing says that this system has no usable HNS: a DLL or one of its
// exports is not there.
var ErrMissing = errors.New("the Host Networking Service is missing")

// Codes that decide which object an answer speaks of. What any other one says of
// a call is its class in the table of hns.LookupCode.
const (
	codeNetworkNotFound  uint32 = 0x803B0001
	codeEndpointNotFound uint32 = 0x803B0002
	codePolicyNotFound   uint32 = 0x803B0008
	codeElementNotFound  uint32 = 0x80070490 // "Element not found.": of anything
)

// codeOf returns the HRESULT of an error, 0 when it has none.
func codeOf(err error) uint32 {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.code
	}
	return 0
}

// classOf returns what the code of an error says, in the table of HNS's codes.
func classOf(err error) hns.CodeClass { return hns.LookupCode(codeOf(err)).Class }

// vanished reports whether an endpoint went away while it was read. HNS has
// been seen to answer with either code (azure-container-networking#1560,
// antrea#2301).
func vanished(err error) bool {
	code := codeOf(err)
	return code == codeEndpointNotFound || code == codeElementNotFound
}

// as puts an error of a call into a class.
func as(class, err error) error { return fmt.Errorf("%w: %w", class, err) }

// unavailable puts an error into the class of calls that were not made or did
// not get through.
func unavailable(err error) error {
	if errors.Is(err, hns.ErrUnavailable) {
		return err
	}
	return as(hns.ErrUnavailable, err)
}

// unread puts the error of a read that has to go before a call into the class
// ErrUnavailable: whatever HNS answered is none of the call's own answers.
func unread(err error) error { return unavailable(fmt.Errorf("read the network first: %w", err)) }

// unknown puts the error of a call that is neither a refusal nor "not found" into
// its class. ErrUnavailable: the caller has no answer, or HNS or our network is not
// there. ErrUnlisted: HNS answered.
func unknown(err error) error {
	switch {
	case errors.Is(err, hns.ErrUnavailable), errors.Is(err, ErrMissing), errors.Is(err, errNoNetwork),
		classOf(err) == hns.BrokeOff:
		return unavailable(err)
	}
	return as(hns.ErrUnlisted, err)
}
