package hcsadapter

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"

	"github.com/winnpm/winnpm/pkg/hns"
)

// TestCodes holds our numbers and names against those of Windows, as far as they
// are known there: the codes after 0x803B002F are newer.
func TestCodes(t *testing.T) {
	for name, theirs := range map[string]windows.Handle{
		"HCN_E_NETWORK_NOT_FOUND":                 windows.HCN_E_NETWORK_NOT_FOUND,
		"HCN_E_ENDPOINT_NOT_FOUND":                windows.HCN_E_ENDPOINT_NOT_FOUND,
		"HCN_E_LAYER_NOT_FOUND":                   windows.HCN_E_LAYER_NOT_FOUND,
		"HCN_E_SWITCH_NOT_FOUND":                  windows.HCN_E_SWITCH_NOT_FOUND,
		"HCN_E_SUBNET_NOT_FOUND":                  windows.HCN_E_SUBNET_NOT_FOUND,
		"HCN_E_ADAPTER_NOT_FOUND":                 windows.HCN_E_ADAPTER_NOT_FOUND,
		"HCN_E_PORT_NOT_FOUND":                    windows.HCN_E_PORT_NOT_FOUND,
		"HCN_E_POLICY_NOT_FOUND":                  windows.HCN_E_POLICY_NOT_FOUND,
		"HCN_E_VFP_PORTSETTING_NOT_FOUND":         windows.HCN_E_VFP_PORTSETTING_NOT_FOUND,
		"HCN_E_INVALID_NETWORK":                   windows.HCN_E_INVALID_NETWORK,
		"HCN_E_INVALID_NETWORK_TYPE":              windows.HCN_E_INVALID_NETWORK_TYPE,
		"HCN_E_INVALID_ENDPOINT":                  windows.HCN_E_INVALID_ENDPOINT,
		"HCN_E_INVALID_POLICY":                    windows.HCN_E_INVALID_POLICY,
		"HCN_E_INVALID_POLICY_TYPE":               windows.HCN_E_INVALID_POLICY_TYPE,
		"HCN_E_INVALID_REMOTE_ENDPOINT_OPERATION": windows.HCN_E_INVALID_REMOTE_ENDPOINT_OPERATION,
		"HCN_E_NETWORK_ALREADY_EXISTS":            windows.HCN_E_NETWORK_ALREADY_EXISTS,
		"HCN_E_LAYER_ALREADY_EXISTS":              windows.HCN_E_LAYER_ALREADY_EXISTS,
		"HCN_E_POLICY_ALREADY_EXISTS":             windows.HCN_E_POLICY_ALREADY_EXISTS,
		"HCN_E_PORT_ALREADY_EXISTS":               windows.HCN_E_PORT_ALREADY_EXISTS,
		"HCN_E_ENDPOINT_ALREADY_ATTACHED":         windows.HCN_E_ENDPOINT_ALREADY_ATTACHED,
		"HCN_E_REQUEST_UNSUPPORTED":               windows.HCN_E_REQUEST_UNSUPPORTED,
		"HCN_E_MAPPING_NOT_SUPPORTED":             windows.HCN_E_MAPPING_NOT_SUPPORTED,
		"HCN_E_DEGRADED_OPERATION":                windows.HCN_E_DEGRADED_OPERATION,
		"HCN_E_SHARED_SWITCH_MODIFICATION":        windows.HCN_E_SHARED_SWITCH_MODIFICATION,
		"HCN_E_GUID_CONVERSION_FAILURE":           windows.HCN_E_GUID_CONVERSION_FAILURE,
		"HCN_E_REGKEY_FAILURE":                    windows.HCN_E_REGKEY_FAILURE,
		"HCN_E_INVALID_JSON":                      windows.HCN_E_INVALID_JSON,
		"HCN_E_INVALID_JSON_REFERENCE":            windows.HCN_E_INVALID_JSON_REFERENCE,
		"HCN_E_ENDPOINT_SHARING_DISABLED":         windows.HCN_E_ENDPOINT_SHARING_DISABLED,
		"HCN_E_INVALID_IP":                        windows.HCN_E_INVALID_IP,
		"HCN_E_SWITCH_EXTENSION_NOT_FOUND":        windows.HCN_E_SWITCH_EXTENSION_NOT_FOUND,
		"HCN_E_MANAGER_STOPPED":                   windows.HCN_E_MANAGER_STOPPED,
		"GCN_E_MODULE_NOT_FOUND":                  windows.GCN_E_MODULE_NOT_FOUND,
		"GCN_E_NO_REQUEST_HANDLERS":               windows.GCN_E_NO_REQUEST_HANDLERS,
		"GCN_E_REQUEST_UNSUPPORTED":               windows.GCN_E_REQUEST_UNSUPPORTED,
		"GCN_E_RUNTIMEKEYS_FAILED":                windows.GCN_E_RUNTIMEKEYS_FAILED,
		"GCN_E_NETADAPTER_TIMEOUT":                windows.GCN_E_NETADAPTER_TIMEOUT,
		"GCN_E_NETADAPTER_NOT_FOUND":              windows.GCN_E_NETADAPTER_NOT_FOUND,
		"GCN_E_NETCOMPARTMENT_NOT_FOUND":          windows.GCN_E_NETCOMPARTMENT_NOT_FOUND,
		"GCN_E_NETINTERFACE_NOT_FOUND":            windows.GCN_E_NETINTERFACE_NOT_FOUND,
		"GCN_E_DEFAULTNAMESPACE_EXISTS":           windows.GCN_E_DEFAULTNAMESPACE_EXISTS,
		"HCN_E_ICS_DISABLED":                      windows.HCN_E_ICS_DISABLED,
		"HCN_E_ENDPOINT_NAMESPACE_ALREADY_EXISTS": windows.HCN_E_ENDPOINT_NAMESPACE_ALREADY_EXISTS,
		"HCN_E_ENTITY_HAS_REFERENCES":             windows.HCN_E_ENTITY_HAS_REFERENCES,
		"HCN_E_INVALID_INTERNAL_PORT":             windows.HCN_E_INVALID_INTERNAL_PORT,
		"HCN_E_NAMESPACE_ATTACH_FAILED":           windows.HCN_E_NAMESPACE_ATTACH_FAILED,
		"HCN_E_ADDR_INVALID_OR_RESERVED":          windows.HCN_E_ADDR_INVALID_OR_RESERVED,
		"E_INVALIDARG":                            windows.E_INVALIDARG,
		"RPC_E_CALL_REJECTED":                     windows.RPC_E_CALL_REJECTED,
		"RPC_E_CALL_CANCELED":                     windows.RPC_E_CALL_CANCELED,
		"RPC_E_SERVER_DIED":                       windows.RPC_E_SERVER_DIED,
		"RPC_E_SERVER_DIED_DNE":                   windows.RPC_E_SERVER_DIED_DNE,
		"RPC_E_DISCONNECTED":                      windows.RPC_E_DISCONNECTED,
		"RPC_E_SERVERCALL_RETRYLATER":             windows.RPC_E_SERVERCALL_RETRYLATER,
		"RPC_E_TIMEOUT":                           windows.RPC_E_TIMEOUT,
		"CO_E_SERVER_EXEC_FAILURE":                windows.CO_E_SERVER_EXEC_FAILURE,
		"CO_E_OBJNOTCONNECTED":                    windows.CO_E_OBJNOTCONNECTED,
		"E_NOTIMPL":                               windows.E_NOTIMPL,
		"E_ABORT":                                 windows.E_ABORT,
		"E_FAIL":                                  windows.E_FAIL,
		"E_UNEXPECTED":                            windows.E_UNEXPECTED,
		"RPC_E_SERVERFAULT":                       windows.RPC_E_SERVERFAULT,
		"E_ACCESSDENIED":                          windows.E_ACCESSDENIED,
		"E_HANDLE":                                windows.E_HANDLE,
		"E_OUTOFMEMORY":                           windows.E_OUTOFMEMORY,
	} {
		require.Equal(t, name, hns.LookupCode(uint32(theirs)).Name)
	}
	for name, theirs := range map[string]syscall.Errno{
		"ERROR_INVALID_DATA":               windows.ERROR_INVALID_DATA,
		"ERROR_NOT_SUPPORTED":              windows.ERROR_NOT_SUPPORTED,
		"ERROR_NOT_FOUND":                  windows.ERROR_NOT_FOUND,
		"ERROR_SERVICE_NOT_ACTIVE":         windows.ERROR_SERVICE_NOT_ACTIVE,
		"ERROR_SERVICE_DISABLED":           windows.ERROR_SERVICE_DISABLED,
		"ERROR_SERVICE_DOES_NOT_EXIST":     windows.ERROR_SERVICE_DOES_NOT_EXIST,
		"ERROR_SERVICE_CANNOT_ACCEPT_CTRL": windows.ERROR_SERVICE_CANNOT_ACCEPT_CTRL,
		"ERROR_SERVICE_REQUEST_TIMEOUT":    windows.ERROR_SERVICE_REQUEST_TIMEOUT,
		"ERROR_PROCESS_ABORTED":            windows.ERROR_PROCESS_ABORTED,
		"ERROR_SERVICE_DEPENDENCY_FAIL":    windows.ERROR_SERVICE_DEPENDENCY_FAIL,
		"ERROR_SHUTDOWN_IN_PROGRESS":       windows.ERROR_SHUTDOWN_IN_PROGRESS,
		"WAIT_TIMEOUT":                     windows.WAIT_TIMEOUT,
		"ERROR_TIMEOUT":                    windows.ERROR_TIMEOUT,
		"RPC_S_INVALID_BINDING":            windows.RPC_S_INVALID_BINDING,
		"RPC_S_UNKNOWN_IF":                 windows.RPC_S_UNKNOWN_IF,
		"RPC_S_SERVER_UNAVAILABLE":         windows.RPC_S_SERVER_UNAVAILABLE,
		"RPC_S_SERVER_TOO_BUSY":            windows.RPC_S_SERVER_TOO_BUSY,
		"RPC_S_CALL_FAILED":                windows.RPC_S_CALL_FAILED,
		"RPC_S_CALL_FAILED_DNE":            windows.RPC_S_CALL_FAILED_DNE,
		"EPT_S_NOT_REGISTERED":             windows.EPT_S_NOT_REGISTERED,
		"RPC_S_CALL_CANCELLED":             windows.RPC_S_CALL_CANCELLED,
		"ERROR_OPERATION_ABORTED":          windows.ERROR_OPERATION_ABORTED,
		"ERROR_CANCELLED":                  windows.ERROR_CANCELLED,
		"RPC_S_PROTOCOL_ERROR":             windows.RPC_S_PROTOCOL_ERROR,
		"RPC_X_BAD_STUB_DATA":              windows.RPC_X_BAD_STUB_DATA,
		"ERROR_FILE_NOT_FOUND":             windows.ERROR_FILE_NOT_FOUND,
		"ERROR_NOT_ENOUGH_MEMORY":          windows.ERROR_NOT_ENOUGH_MEMORY,
		"ERROR_NOT_READY":                  windows.ERROR_NOT_READY,
		"ERROR_GEN_FAILURE":                windows.ERROR_GEN_FAILURE,
		"ERROR_INSUFFICIENT_BUFFER":        windows.ERROR_INSUFFICIENT_BUFFER,
		"ERROR_BUSY":                       windows.ERROR_BUSY,
		"ERROR_ALREADY_EXISTS":             windows.ERROR_ALREADY_EXISTS,
		"ERROR_NO_SYSTEM_RESOURCES":        windows.ERROR_NO_SYSTEM_RESOURCES,
		"ERROR_COMMITMENT_LIMIT":           windows.ERROR_COMMITMENT_LIMIT,
		"ERROR_INVALID_STATE":              windows.ERROR_INVALID_STATE,
	} {
		require.Equal(t, name, hns.LookupCode(0x80070000|uint32(theirs)).Name)
	}
	for name, ours := range map[string]uint32{
		"HCN_E_NETWORK_NOT_FOUND":  codeNetworkNotFound,
		"HCN_E_ENDPOINT_NOT_FOUND": codeEndpointNotFound,
		"HCN_E_POLICY_NOT_FOUND":   codePolicyNotFound,
		"ERROR_NOT_FOUND":          codeElementNotFound,
	} {
		require.Equal(t, name, hns.LookupCode(ours).Name)
	}
}
