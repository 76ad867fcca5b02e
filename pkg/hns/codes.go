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
	Name  string // in the headers of Windows; empty if the code is not in codes
	Class CodeClass
	// Source is where the name comes from, and the class if it does not follow from the header.
	Source string
}

// LookupCode returns the description of an HRESULT. For an unlisted one it returns the zero Code,
// whose class is Unlisted. A code may be about another object than the request, so only
// RefusesContent and BrokeOff decide anything by themselves.
func LookupCode(code uint32) Code { return codes[code] }

// Sources of names.
const (
	hcnHeader = "winerror.h, HCNHResult.md"
	winHeader = "winerror.h"
)

// codes lists every code of HCN and GCN, and the Windows codes that HNS passes on. A code that may
// or may not reject content is Unlisted: then a read decides. A wrong RefusesContent would leave
// out a rule or set for no reason, and a wrong BrokeOff would retry a rejected request forever.
var codes = map[uint32]Code{
	0x803B0001: {"HCN_E_NETWORK_NOT_FOUND", SaysMissing, hcnHeader},
	0x803B0002: {"HCN_E_ENDPOINT_NOT_FOUND", SaysMissing, hcnHeader + "; azure-container-networking#1560"},
	0x803B0003: {"HCN_E_LAYER_NOT_FOUND", Unlisted, hcnHeader},
	0x803B0004: {"HCN_E_SWITCH_NOT_FOUND", Unlisted, hcnHeader},
	0x803B0005: {"HCN_E_SUBNET_NOT_FOUND", Unlisted, hcnHeader},
	0x803B0006: {"HCN_E_ADAPTER_NOT_FOUND", Unlisted, hcnHeader},
	0x803B0007: {"HCN_E_PORT_NOT_FOUND", Unlisted, hcnHeader},
	0x803B0008: {"HCN_E_POLICY_NOT_FOUND", SaysMissing, hcnHeader + "; that a set is missing: assumed"},
	0x803B0009: {"HCN_E_VFP_PORTSETTING_NOT_FOUND", Unlisted, hcnHeader},
	0x803B000A: {"HCN_E_INVALID_NETWORK", Unlisted, hcnHeader},
	0x803B000B: {"HCN_E_INVALID_NETWORK_TYPE", Unlisted, hcnHeader},
	0x803B000C: {"HCN_E_INVALID_ENDPOINT", RefusesEndpoint, hcnHeader},
	0x803B000D: {"HCN_E_INVALID_POLICY", RefusesContent, hcnHeader + "; hcsshim#1059: a rule with a word for an address"},
	0x803B000E: {"HCN_E_INVALID_POLICY_TYPE", RefusesContent, hcnHeader},
	0x803B000F: {"HCN_E_INVALID_REMOTE_ENDPOINT_OPERATION", RefusesEndpoint, hcnHeader},
	0x803B0010: {"HCN_E_NETWORK_ALREADY_EXISTS", Unlisted, hcnHeader},
	0x803B0011: {"HCN_E_LAYER_ALREADY_EXISTS", Unlisted, hcnHeader},
	0x803B0012: {"HCN_E_POLICY_ALREADY_EXISTS", SaysExists, hcnHeader + "; that a set is there already: assumed"},
	0x803B0013: {"HCN_E_PORT_ALREADY_EXISTS", Unlisted, hcnHeader},
	0x803B0014: {"HCN_E_ENDPOINT_ALREADY_ATTACHED", Unlisted, hcnHeader},
	0x803B0015: {"HCN_E_REQUEST_UNSUPPORTED", RefusesContent, hcnHeader},
	0x803B0016: {"HCN_E_MAPPING_NOT_SUPPORTED", RefusesContent, hcnHeader},
	0x803B0017: {"HCN_E_DEGRADED_OPERATION", Unlisted, hcnHeader + "; containerd#5729: of an endpoint that could not be made"},
	0x803B0018: {"HCN_E_SHARED_SWITCH_MODIFICATION", Unlisted, hcnHeader},
	0x803B0019: {"HCN_E_GUID_CONVERSION_FAILURE", Unlisted, hcnHeader},
	0x803B001A: {"HCN_E_REGKEY_FAILURE", Unlisted, hcnHeader},
	0x803B001B: {"HCN_E_INVALID_JSON", RefusesContent, hcnHeader},
	0x803B001C: {"HCN_E_INVALID_JSON_REFERENCE", RefusesContent, hcnHeader},
	0x803B001D: {"HCN_E_ENDPOINT_SHARING_DISABLED", Unlisted, hcnHeader},
	0x803B001E: {"HCN_E_INVALID_IP", RefusesContent, hcnHeader},
	0x803B001F: {"HCN_E_SWITCH_EXTENSION_NOT_FOUND", Unlisted, hcnHeader},
	0x803B0020: {"HCN_E_MANAGER_STOPPED", BrokeOff, hcnHeader},
	0x803B0021: {"GCN_E_MODULE_NOT_FOUND", Unlisted, hcnHeader},
	0x803B0022: {"GCN_E_NO_REQUEST_HANDLERS", Unlisted, hcnHeader},
	0x803B0023: {"GCN_E_REQUEST_UNSUPPORTED", Unlisted, hcnHeader},
	0x803B0024: {"GCN_E_RUNTIMEKEYS_FAILED", Unlisted, hcnHeader},
	0x803B0025: {"GCN_E_NETADAPTER_TIMEOUT", Unlisted, hcnHeader},
	0x803B0026: {"GCN_E_NETADAPTER_NOT_FOUND", Unlisted, hcnHeader},
	0x803B0027: {"GCN_E_NETCOMPARTMENT_NOT_FOUND", Unlisted, hcnHeader},
	0x803B0028: {"GCN_E_NETINTERFACE_NOT_FOUND", Unlisted, hcnHeader},
	0x803B0029: {"GCN_E_DEFAULTNAMESPACE_EXISTS", Unlisted, hcnHeader},
	0x803B002A: {"HCN_E_ICS_DISABLED", Unlisted, hcnHeader},
	0x803B002B: {"HCN_E_ENDPOINT_NAMESPACE_ALREADY_EXISTS", Unlisted, hcnHeader},
	0x803B002C: {"HCN_E_ENTITY_HAS_REFERENCES", SaysUsed, hcnHeader + "; that a set is in use: assumed"},
	0x803B002D: {"HCN_E_INVALID_INTERNAL_PORT", RefusesContent, hcnHeader},
	0x803B002E: {"HCN_E_NAMESPACE_ATTACH_FAILED", Unlisted, hcnHeader},
	0x803B002F: {"HCN_E_ADDR_INVALID_OR_RESERVED", RefusesContent, hcnHeader},
	0x803B0030: {"HCN_E_INVALID_PREFIX", RefusesContent, hcnHeader},
	0x803B0031: {"HCN_E_OBJECT_USED_AFTER_UNLOAD", Unlisted, hcnHeader},
	0x803B0032: {"HCN_E_INVALID_SUBNET", RefusesContent, hcnHeader},
	0x803B0033: {"HCN_E_INVALID_IP_SUBNET", RefusesContent, hcnHeader},
	0x803B0034: {"HCN_E_ENDPOINT_NOT_ATTACHED", RefusesEndpoint, hcnHeader},
	0x803B0035: {"HCN_E_ENDPOINT_NOT_LOCAL", RefusesEndpoint, hcnHeader},
	0x803B0036: {"HCN_E_INTERFACEPARAMETERS_ALREADY_APPLIED", Unlisted, hcnHeader},
	0x803B0037: {"HCN_E_VFP_NOT_ALLOWED", Unlisted, hcnHeader},

	// Codes of Windows itself.
	0x80070057: {"E_INVALIDARG", RefusesContent, winHeader + "; hcsshim#164"},
	0x8007000D: {"ERROR_INVALID_DATA", RefusesContent, winHeader},
	0x80070032: {"ERROR_NOT_SUPPORTED", RefusesContent, winHeader},

	// Any object may be missing.
	0x80070490: {"ERROR_NOT_FOUND", SaysMissing, winHeader + "; antrea#2301, azure-container-networking#283: of anything"},

	// The service is stopping or absent, or does not answer in time.
	0x80070426: {"ERROR_SERVICE_NOT_ACTIVE", BrokeOff, winHeader},
	0x80070422: {"ERROR_SERVICE_DISABLED", BrokeOff, winHeader},
	0x80070424: {"ERROR_SERVICE_DOES_NOT_EXIST", BrokeOff, winHeader},
	0x80070425: {"ERROR_SERVICE_CANNOT_ACCEPT_CTRL", BrokeOff, winHeader},
	0x8007041D: {"ERROR_SERVICE_REQUEST_TIMEOUT", BrokeOff, winHeader},
	0x8007042B: {"ERROR_PROCESS_ABORTED", BrokeOff, winHeader},
	0x8007042C: {"ERROR_SERVICE_DEPENDENCY_FAIL", BrokeOff, winHeader},
	0x8007045B: {"ERROR_SHUTDOWN_IN_PROGRESS", BrokeOff, winHeader},
	0x80070102: {"WAIT_TIMEOUT", BrokeOff, winHeader},
	0x800705B4: {"ERROR_TIMEOUT", BrokeOff, winHeader},

	// The connection to the service failed.
	0x800706A6: {"RPC_S_INVALID_BINDING", BrokeOff, winHeader},
	0x800706B5: {"RPC_S_UNKNOWN_IF", BrokeOff, winHeader},
	0x800706BA: {"RPC_S_SERVER_UNAVAILABLE", BrokeOff, winHeader},
	0x800706BB: {"RPC_S_SERVER_TOO_BUSY", BrokeOff, winHeader},
	0x800706BE: {"RPC_S_CALL_FAILED", BrokeOff, winHeader},
	0x800706BF: {"RPC_S_CALL_FAILED_DNE", BrokeOff, winHeader},
	0x800706D9: {"EPT_S_NOT_REGISTERED", BrokeOff, winHeader},
	0x8007071A: {"RPC_S_CALL_CANCELLED", BrokeOff, winHeader},
	0x80010001: {"RPC_E_CALL_REJECTED", BrokeOff, winHeader},
	0x80010002: {"RPC_E_CALL_CANCELED", BrokeOff, winHeader},
	0x80010007: {"RPC_E_SERVER_DIED", BrokeOff, winHeader},
	0x80010012: {"RPC_E_SERVER_DIED_DNE", BrokeOff, winHeader},
	0x80010108: {"RPC_E_DISCONNECTED", BrokeOff, winHeader},
	0x8001010A: {"RPC_E_SERVERCALL_RETRYLATER", BrokeOff, winHeader},
	0x8001011F: {"RPC_E_TIMEOUT", BrokeOff, winHeader},
	0x80080005: {"CO_E_SERVER_EXEC_FAILURE", BrokeOff, winHeader},
	0x800401FD: {"CO_E_OBJNOTCONNECTED", BrokeOff, winHeader},

	// Codes that may reject the content or the object, or be temporary.
	0x800703E3: {"ERROR_OPERATION_ABORTED", Unlisted, winHeader},
	0x800704C7: {"ERROR_CANCELLED", Unlisted, winHeader},
	0x800706C0: {"RPC_S_PROTOCOL_ERROR", Unlisted, winHeader},
	0x80004001: {"E_NOTIMPL", Unlisted, winHeader},
	0x80004004: {"E_ABORT", Unlisted, winHeader},
	0x80004005: {"E_FAIL", Unlisted, winHeader},
	0x8000FFFF: {"E_UNEXPECTED", Unlisted, winHeader},
	0x80010105: {"RPC_E_SERVERFAULT", Unlisted, winHeader},
	0x800706F7: {"RPC_X_BAD_STUB_DATA", Unlisted, winHeader},
	0x80070002: {"ERROR_FILE_NOT_FOUND", Unlisted, winHeader},
	0x80070005: {"E_ACCESSDENIED", Unlisted, winHeader},
	0x80070006: {"E_HANDLE", Unlisted, winHeader},
	0x80070008: {"ERROR_NOT_ENOUGH_MEMORY", Unlisted, winHeader},
	0x8007000E: {"E_OUTOFMEMORY", Unlisted, winHeader},
	0x80070015: {"ERROR_NOT_READY", Unlisted, winHeader},
	0x8007001F: {"ERROR_GEN_FAILURE", Unlisted, winHeader},
	0x8007007A: {"ERROR_INSUFFICIENT_BUFFER", Unlisted, winHeader},
	0x800700AA: {"ERROR_BUSY", Unlisted, winHeader},
	0x800700B7: {"ERROR_ALREADY_EXISTS", Unlisted, winHeader},
	0x800705AA: {"ERROR_NO_SYSTEM_RESOURCES", Unlisted, winHeader},
	0x800705AF: {"ERROR_COMMITMENT_LIMIT", Unlisted, winHeader},
	0x8007139F: {"ERROR_INVALID_STATE", Unlisted, winHeader},
}
