package hns

// CodeClass is what a code in an answer of HNS says about the call.
type CodeClass uint8

// The classes of codes.
const (
	// Unlisted: the code has no known meaning for the call, so only a read can tell what it did.
	Unlisted CodeClass = iota
	// BrokeOff: the call did not complete. It may have been done, in part or in full.
	BrokeOff
	// RefusesContent: HNS rejects the content of the request.
	RefusesContent
	// RefusesEndpoint: this endpoint takes no policies at all.
	RefusesEndpoint
	// SaysMissing: an endpoint, a network or a set does not exist.
	SaysMissing
	// SaysExists: the object to add already exists.
	SaysExists
	// SaysUsed: the object to remove is still referenced.
	SaysUsed
)

// Code describes an HRESULT that HNS returns.
type Code struct {
	Name  string // in winerror.h; empty if the code is not in codes
	Class CodeClass
}

// LookupCode returns the description of an HRESULT. For any code that is not in codes it returns the
// zero Code, whose class is Unlisted. A code may be about another object than the request, so only
// RefusesContent and BrokeOff decide anything by themselves.
func LookupCode(code uint32) Code { return codes[code] }

// codes has the codes of HCN (HCNHResult.md) and of Windows whose meaning is known. Where the class does
// not follow from the name, a comment gives its source.
//
// A code that may or may not reject content is not here: then a read decides. E_FAIL, E_UNEXPECTED,
// E_ACCESSDENIED, E_OUTOFMEMORY and ERROR_BUSY are such codes. A wrong RefusesContent would leave
// out a rule or set for no reason, and a wrong BrokeOff would retry a rejected request forever.
var codes = map[uint32]Code{
	0x803B0001: {"HCN_E_NETWORK_NOT_FOUND", SaysMissing},
	0x803B0002: {"HCN_E_ENDPOINT_NOT_FOUND", SaysMissing}, // azure-container-networking#1560
	0x803B0008: {"HCN_E_POLICY_NOT_FOUND", SaysMissing},   // that a set is missing: assumed
	0x803B000C: {"HCN_E_INVALID_ENDPOINT", RefusesEndpoint},
	0x803B000D: {"HCN_E_INVALID_POLICY", RefusesContent}, // hcsshim#1059: a rule with a word for an address
	0x803B000E: {"HCN_E_INVALID_POLICY_TYPE", RefusesContent},
	0x803B000F: {"HCN_E_INVALID_REMOTE_ENDPOINT_OPERATION", RefusesEndpoint},
	0x803B0012: {"HCN_E_POLICY_ALREADY_EXISTS", SaysExists}, // that a set is there already: assumed
	0x803B0015: {"HCN_E_REQUEST_UNSUPPORTED", RefusesContent},
	0x803B0016: {"HCN_E_MAPPING_NOT_SUPPORTED", RefusesContent},
	0x803B001B: {"HCN_E_INVALID_JSON", RefusesContent},
	0x803B001C: {"HCN_E_INVALID_JSON_REFERENCE", RefusesContent},
	0x803B001E: {"HCN_E_INVALID_IP", RefusesContent},
	0x803B0020: {"HCN_E_MANAGER_STOPPED", BrokeOff},
	0x803B002C: {"HCN_E_ENTITY_HAS_REFERENCES", SaysUsed}, // that a set is in use: assumed
	0x803B002D: {"HCN_E_INVALID_INTERNAL_PORT", RefusesContent},
	0x803B002F: {"HCN_E_ADDR_INVALID_OR_RESERVED", RefusesContent},
	0x803B0030: {"HCN_E_INVALID_PREFIX", RefusesContent},
	0x803B0032: {"HCN_E_INVALID_SUBNET", RefusesContent},
	0x803B0033: {"HCN_E_INVALID_IP_SUBNET", RefusesContent},
	0x803B0034: {"HCN_E_ENDPOINT_NOT_ATTACHED", RefusesEndpoint},
	0x803B0035: {"HCN_E_ENDPOINT_NOT_LOCAL", RefusesEndpoint},

	// Codes of Windows itself.
	0x80070057: {"E_INVALIDARG", RefusesContent}, // hcsshim#164
	0x8007000D: {"ERROR_INVALID_DATA", RefusesContent},
	0x80070032: {"ERROR_NOT_SUPPORTED", RefusesContent},

	// Any object may be missing.
	0x80070490: {"ERROR_NOT_FOUND", SaysMissing}, // antrea#2301, azure-container-networking#283: of anything

	// The service is stopping or absent, or does not answer in time.
	0x80070426: {"ERROR_SERVICE_NOT_ACTIVE", BrokeOff},
	0x80070422: {"ERROR_SERVICE_DISABLED", BrokeOff},
	0x80070424: {"ERROR_SERVICE_DOES_NOT_EXIST", BrokeOff},
	0x80070425: {"ERROR_SERVICE_CANNOT_ACCEPT_CTRL", BrokeOff},
	0x8007041D: {"ERROR_SERVICE_REQUEST_TIMEOUT", BrokeOff},
	0x8007042B: {"ERROR_PROCESS_ABORTED", BrokeOff},
	0x8007042C: {"ERROR_SERVICE_DEPENDENCY_FAIL", BrokeOff},
	0x8007045B: {"ERROR_SHUTDOWN_IN_PROGRESS", BrokeOff},
	0x80070102: {"WAIT_TIMEOUT", BrokeOff},
	0x800705B4: {"ERROR_TIMEOUT", BrokeOff},

	// The connection to the service failed.
	0x800706A6: {"RPC_S_INVALID_BINDING", BrokeOff},
	0x800706B5: {"RPC_S_UNKNOWN_IF", BrokeOff},
	0x800706BA: {"RPC_S_SERVER_UNAVAILABLE", BrokeOff},
	0x800706BB: {"RPC_S_SERVER_TOO_BUSY", BrokeOff},
	0x800706BE: {"RPC_S_CALL_FAILED", BrokeOff},
	0x800706BF: {"RPC_S_CALL_FAILED_DNE", BrokeOff},
	0x800706D9: {"EPT_S_NOT_REGISTERED", BrokeOff},
	0x8007071A: {"RPC_S_CALL_CANCELLED", BrokeOff},
	0x80010001: {"RPC_E_CALL_REJECTED", BrokeOff},
	0x80010002: {"RPC_E_CALL_CANCELED", BrokeOff},
	0x80010007: {"RPC_E_SERVER_DIED", BrokeOff},
	0x80010012: {"RPC_E_SERVER_DIED_DNE", BrokeOff},
	0x80010108: {"RPC_E_DISCONNECTED", BrokeOff},
	0x8001010A: {"RPC_E_SERVERCALL_RETRYLATER", BrokeOff},
	0x8001011F: {"RPC_E_TIMEOUT", BrokeOff},
	0x80080005: {"CO_E_SERVER_EXEC_FAILURE", BrokeOff},
	0x800401FD: {"CO_E_OBJNOTCONNECTED", BrokeOff},
}
