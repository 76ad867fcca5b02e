package hcsadapter

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"

	"github.com/winnpm/winnpm/pkg/hns"
)

// TestCodes holds our numbers against those of Windows.
func TestCodes(t *testing.T) {
	for ours, theirs := range map[uint32]windows.Handle{
		codeNetworkNotFound:  windows.HCN_E_NETWORK_NOT_FOUND,
		codeEndpointNotFound: windows.HCN_E_ENDPOINT_NOT_FOUND,
		codePolicyNotFound:   windows.HCN_E_POLICY_NOT_FOUND,
		codeInvalidEndpoint:  windows.HCN_E_INVALID_ENDPOINT,
		codeInvalidPolicy:    windows.HCN_E_INVALID_POLICY,
		codeInvalidType:      windows.HCN_E_INVALID_POLICY_TYPE,
		codeRemoteEndpoint:   windows.HCN_E_INVALID_REMOTE_ENDPOINT_OPERATION,
		codePolicyExists:     windows.HCN_E_POLICY_ALREADY_EXISTS,
		codeUnsupported:      windows.HCN_E_REQUEST_UNSUPPORTED,
		codeInvalidJSON:      windows.HCN_E_INVALID_JSON,
		codeInvalidReference: windows.HCN_E_INVALID_JSON_REFERENCE,
		codeInvalidIP:        windows.HCN_E_INVALID_IP,
		codeHasReferences:    windows.HCN_E_ENTITY_HAS_REFERENCES,
		codeInvalidArgument:  windows.E_INVALIDARG,
	} {
		require.Equal(t, uint32(theirs), ours)
	}
	require.Equal(t, hresult(uint32(windows.ERROR_NOT_FOUND)), codeElementNotFound)
}

// TestWithoutHNS: a system without HNS gets an error, and hcn's own one can be
// told by its code.
func TestWithoutHNS(t *testing.T) {
	a, err := New(Options{Network: "azure"})
	if err == nil {
		a.Close()
		t.Skip("this system has an HNS; the suite in test/windows talks to it")
	}
	require.ErrorIs(t, err, ErrMissing)
	require.ErrorIs(t, err, windows.ERROR_MOD_NOT_FOUND)

	_, err = hcnService{}.networks(filter("Name", "azure"))
	answer, ok := errors.AsType[*failure](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, hresult(uint32(windows.ERROR_MOD_NOT_FOUND)), answer.code)

	on := newAdapter(Options{Network: "azure"}, hcnService{})
	defer on.Close()
	_, err = on.Version(t.Context())
	require.ErrorIs(t, err, ErrMissing)
	require.ErrorIs(t, err, hns.ErrUnavailable)
}

// TestFind: hcn panics when it calls an export that is missing, so it is looked
// for by name.
func TestFind(t *testing.T) {
	require.NoError(t, find("kernel32.dll", "GetVersion"))
	err := find("kernel32.dll", "GetVersion", "HcnEnumerateNetworks")
	require.ErrorIs(t, err, ErrMissing)
	require.ErrorContains(t, err, "HcnEnumerateNetworks")
}

// TestTranslate: what is no answer of HNS stays what it is.
func TestTranslate(t *testing.T) {
	require.NoError(t, translate(nil))
	err := hcnService{}.modifyEndpoint("no GUID", hns.Add, []byte(`{}`))
	require.Error(t, err)
	require.Zero(t, codeOf(err))
}
