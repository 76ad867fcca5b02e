package hnssim

import (
	"fmt"

	"github.com/winnpm/winnpm/pkg/hns"
)

// Codes of HNS (golang.org/x/sys/windows, zerrors_windows.go, HCN_E_*).
const (
	codeEndpointNotFound uint32 = 0x803B0002
	codePolicyNotFound   uint32 = 0x803B0008
	codeInvalidEndpoint  uint32 = 0x803B000C
	codeInvalidPolicy    uint32 = 0x803B000D
	codeInvalidType      uint32 = 0x803B000E
	codeRemoteEndpoint   uint32 = 0x803B000F
	codePolicyExists     uint32 = 0x803B0012
	codeInvalidJSON      uint32 = 0x803B001B
	codeInvalidIP        uint32 = 0x803B001E
	codeHasReferences    uint32 = 0x803B002C
)

// refusal is a reason for which HNS rejects a request, with the error that HNS returns.
type refusal struct {
	class error
	code  uint32
	kind  string // the kind of object in the error
	text  string
}

// refusals lists every refusal; a test raises each of them.
var refusals []*refusal

func newRefusal(class error, code uint32, kind, text string) *refusal {
	r := &refusal{class, code, kind, text}
	refusals = append(refusals, r)
	return r
}

var (
	unknownVerb    = newRefusal(hns.ErrInvalid, codeInvalidPolicy, hns.KindSet, "no such request type")
	emptyRequest   = newRefusal(hns.ErrInvalid, codeInvalidPolicy, hns.KindNetwork, "a request without policies")
	unknownSetType = newRefusal(hns.ErrInvalid, codeInvalidType, hns.KindSet, "no such set type")
	mixedSetTypes  = newRefusal(hns.ErrInvalid, codeInvalidPolicy, hns.KindSet, "two set types in one request")
	badSetID       = newRefusal(hns.ErrInvalid, codeInvalidPolicy, hns.KindSet, "an Id that cannot be told apart in a list")
	noSetName      = newRefusal(hns.ErrInvalid, codeInvalidPolicy, hns.KindSet, "a set without a name")
	setIDTwice     = newRefusal(hns.ErrInvalid, codeInvalidPolicy, hns.KindSet, "one Id twice in a request")
	setNameTaken   = newRefusal(hns.ErrInvalid, codeInvalidPolicy, hns.KindSet, "the name of another set")
	setRenamed     = newRefusal(hns.ErrInvalid, codeInvalidPolicy, hns.KindSet, "the Id of a set with another name")
	setTypeChanged = newRefusal(hns.ErrInvalid, codeInvalidType, hns.KindSet, "a set of the other type has the Id")
	setExists      = newRefusal(hns.ErrAlreadyExists, codePolicyExists, hns.KindSet, "add of a set that is there")
	setMissing     = newRefusal(hns.ErrNotFound, codePolicyNotFound, hns.KindSet, "remove of a set that is not there")
	setInUse       = newRefusal(hns.ErrInUse, codeHasReferences, hns.KindSet, "remove of a set that is named")
	badSetValue    = newRefusal(hns.ErrInvalid, codeInvalidPolicy, hns.KindSet, "a value that is no address and no block")
	ipv6SetValue   = newRefusal(hns.ErrInvalid, codeInvalidIP, hns.KindSet, "an IPv6 value")
	memberMissing  = newRefusal(hns.ErrNotFound, codePolicyNotFound, hns.KindSet, "a member that is not there")
	memberNested   = newRefusal(hns.ErrInvalid, codeInvalidPolicy, hns.KindSet, "a member that is itself nested")
	memberSelf     = newRefusal(hns.ErrInvalid, codeInvalidPolicy, hns.KindSet, "a set that contains itself")

	endpointMissing     = newRefusal(hns.ErrNotFound, codeEndpointNotFound, hns.KindEndpoint, "no such endpoint")
	endpointNotAttached = newRefusal(hns.ErrInvalid, codeInvalidEndpoint, hns.KindEndpoint, "the endpoint is not attached")
	endpointRemote      = newRefusal(hns.ErrInvalid, codeRemoteEndpoint, hns.KindEndpoint, "the endpoint is remote")

	noPolicyType          = newRefusal(hns.ErrInvalid, codeInvalidType, hns.KindACL, "a policy without a type")
	badSettings           = newRefusal(hns.ErrInvalid, codeInvalidJSON, hns.KindACL, "settings that do not decode")
	unknownAction         = newRefusal(hns.ErrInvalid, codeInvalidPolicy, hns.KindACL, "no such action")
	unknownDirection      = newRefusal(hns.ErrInvalid, codeInvalidPolicy, hns.KindACL, "no such direction")
	unknownRuleType       = newRefusal(hns.ErrInvalid, codeInvalidPolicy, hns.KindACL, "no such rule type")
	switchWithoutPriority = newRefusal(hns.ErrInvalid, codeInvalidPolicy, hns.KindACL, "a Switch rule of priority 0")
	hostWithPriority      = newRefusal(hns.ErrInvalid, codeInvalidPolicy, hns.KindACL, "a Host rule with a priority")
	badProtocol           = newRefusal(hns.ErrInvalid, codeInvalidPolicy, hns.KindACL, "no protocol number")
	severalProtocols      = newRefusal(hns.ErrInvalid, codeInvalidPolicy, hns.KindACL, "more than one protocol")
	portsOfAnyProtocol    = newRefusal(hns.ErrInvalid, codeInvalidPolicy, hns.KindACL, "ports of a protocol without ports")
	badPort               = newRefusal(hns.ErrInvalid, codeInvalidPolicy, hns.KindACL, "no port and no range of ports")
	badAddress            = newRefusal(hns.ErrInvalid, codeInvalidPolicy, hns.KindACL, "no address, no block and no set")
	ipv6Address           = newRefusal(hns.ErrInvalid, codeInvalidIP, hns.KindACL, "an IPv6 address")
	mixedAddresses        = newRefusal(hns.ErrInvalid, codeInvalidPolicy, hns.KindACL, "literals and sets in one field")
	tooManyAddresses      = newRefusal(hns.ErrInvalid, codeInvalidPolicy, hns.KindACL, "too many addresses")
	aclSetMissing         = newRefusal(hns.ErrNotFound, codePolicyNotFound, hns.KindSet, "a rule names a set that is not there")
)

// of returns the rejection for this reason. what names the rejected object.
func (r *refusal) of(what string) *refused { return &refused{r, what} }

// refused is the rejection of a request.
type refused struct {
	*refusal
	what string
}

// Error implements error.
func (r *refused) Error() string {
	return fmt.Sprintf("%v: %s: %s", r.class, r.text, r.what)
}

// Unwrap returns the class.
func (r *refused) Unwrap() error { return r.class }

// in returns the rejection as the error of a call. Its text names the rejected object, which HNS does not,
// to explain a failed test.
func (r *refused) in(c Call) error {
	return c.Refusal(r.kind, r.code, r)
}
