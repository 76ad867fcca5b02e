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

// reason is a reason for which HNS rejects a request.
type reason int

const (
	unknownVerb reason = iota
	emptyRequest
	unknownSetType
	mixedSetTypes
	badSetID
	noSetName
	setIDTwice
	setNameTaken
	setRenamed
	setTypeChanged
	setExists
	setMissing
	setInUse
	badSetValue
	ipv6SetValue
	memberMissing
	memberNested
	memberSelf

	endpointMissing
	endpointNotAttached
	endpointRemote

	noPolicyType
	badSettings
	unknownAction
	unknownDirection
	unknownRuleType
	switchWithoutPriority
	hostWithPriority
	badProtocol
	severalProtocols
	portsOfAnyProtocol
	badPort
	badAddress
	ipv6Address
	mixedAddresses
	tooManyAddresses
	aclSetMissing
)

// refusal is the error that HNS returns for a reason.
type refusal struct {
	class error
	code  uint32
	kind  string // the kind of object in the error
	text  string
}

// refusals has every reason; a test raises each of them.
var refusals = map[reason]refusal{
	unknownVerb:    {hns.ErrInvalid, codeInvalidPolicy, hns.KindSet, "no such request type"},
	emptyRequest:   {hns.ErrInvalid, codeInvalidPolicy, hns.KindNetwork, "a request without policies"},
	unknownSetType: {hns.ErrInvalid, codeInvalidType, hns.KindSet, "no such set type"},
	mixedSetTypes:  {hns.ErrInvalid, codeInvalidPolicy, hns.KindSet, "two set types in one request"},
	badSetID:       {hns.ErrInvalid, codeInvalidPolicy, hns.KindSet, "an Id that cannot be told apart in a list"},
	noSetName:      {hns.ErrInvalid, codeInvalidPolicy, hns.KindSet, "a set without a name"},
	setIDTwice:     {hns.ErrInvalid, codeInvalidPolicy, hns.KindSet, "one Id twice in a request"},
	setNameTaken:   {hns.ErrInvalid, codeInvalidPolicy, hns.KindSet, "the name of another set"},
	setRenamed:     {hns.ErrInvalid, codeInvalidPolicy, hns.KindSet, "the Id of a set with another name"},
	setTypeChanged: {hns.ErrInvalid, codeInvalidType, hns.KindSet, "a set of the other type has the Id"},
	setExists:      {hns.ErrAlreadyExists, codePolicyExists, hns.KindSet, "add of a set that is there"},
	setMissing:     {hns.ErrNotFound, codePolicyNotFound, hns.KindSet, "remove of a set that is not there"},
	setInUse:       {hns.ErrInUse, codeHasReferences, hns.KindSet, "remove of a set that is named"},
	badSetValue:    {hns.ErrInvalid, codeInvalidPolicy, hns.KindSet, "a value that is no address and no block"},
	ipv6SetValue:   {hns.ErrInvalid, codeInvalidIP, hns.KindSet, "an IPv6 value"},
	memberMissing:  {hns.ErrNotFound, codePolicyNotFound, hns.KindSet, "a member that is not there"},
	memberNested:   {hns.ErrInvalid, codeInvalidPolicy, hns.KindSet, "a member that is itself nested"},
	memberSelf:     {hns.ErrInvalid, codeInvalidPolicy, hns.KindSet, "a set that contains itself"},

	endpointMissing:     {hns.ErrNotFound, codeEndpointNotFound, hns.KindEndpoint, "no such endpoint"},
	endpointNotAttached: {hns.ErrInvalid, codeInvalidEndpoint, hns.KindEndpoint, "the endpoint is not attached"},
	endpointRemote:      {hns.ErrInvalid, codeRemoteEndpoint, hns.KindEndpoint, "the endpoint is remote"},

	noPolicyType:          {hns.ErrInvalid, codeInvalidType, hns.KindACL, "a policy without a type"},
	badSettings:           {hns.ErrInvalid, codeInvalidJSON, hns.KindACL, "settings that do not decode"},
	unknownAction:         {hns.ErrInvalid, codeInvalidPolicy, hns.KindACL, "no such action"},
	unknownDirection:      {hns.ErrInvalid, codeInvalidPolicy, hns.KindACL, "no such direction"},
	unknownRuleType:       {hns.ErrInvalid, codeInvalidPolicy, hns.KindACL, "no such rule type"},
	switchWithoutPriority: {hns.ErrInvalid, codeInvalidPolicy, hns.KindACL, "a Switch rule of priority 0"},
	hostWithPriority:      {hns.ErrInvalid, codeInvalidPolicy, hns.KindACL, "a Host rule with a priority"},
	badProtocol:           {hns.ErrInvalid, codeInvalidPolicy, hns.KindACL, "no protocol number"},
	severalProtocols:      {hns.ErrInvalid, codeInvalidPolicy, hns.KindACL, "more than one protocol"},
	portsOfAnyProtocol:    {hns.ErrInvalid, codeInvalidPolicy, hns.KindACL, "ports of a protocol without ports"},
	badPort:               {hns.ErrInvalid, codeInvalidPolicy, hns.KindACL, "no port and no range of ports"},
	badAddress:            {hns.ErrInvalid, codeInvalidPolicy, hns.KindACL, "no address, no block and no set"},
	ipv6Address:           {hns.ErrInvalid, codeInvalidIP, hns.KindACL, "an IPv6 address"},
	mixedAddresses:        {hns.ErrInvalid, codeInvalidPolicy, hns.KindACL, "literals and sets in one field"},
	tooManyAddresses:      {hns.ErrInvalid, codeInvalidPolicy, hns.KindACL, "too many addresses"},
	aclSetMissing:         {hns.ErrNotFound, codePolicyNotFound, hns.KindSet, "a rule names a set that is not there"},
}

// of returns the rejection for this reason. what names the rejected object.
func (r reason) of(what string) *refused { return &refused{reason: r, what: what} }

// refused is the rejection of a request.
type refused struct {
	reason reason
	what   string
}

// Error implements error.
func (r *refused) Error() string {
	return fmt.Sprintf("%v: %s: %s", r.Unwrap(), refusals[r.reason].text, r.what)
}

// Unwrap returns the class.
func (r *refused) Unwrap() error { return refusals[r.reason].class }

// in returns the rejection as the error of a call. Its text names the rejected object, which HNS does not,
// to explain a failed test.
func (r *refused) in(c Call) error {
	return c.Refusal(refusals[r.reason].kind, refusals[r.reason].code, r)
}
