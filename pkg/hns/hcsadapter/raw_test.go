package hcsadapter

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
)

// TestShapes: each export of HNS is called with the arguments of Microsoft's HCN API
// reference, and nothing else is called.
func TestShapes(t *testing.T) {
	for export, want := range map[string]shape{
		"HcnEnumerateNetworks":        {texts: 1, output: true, rc: true},
		"HcnOpenEndpoint":             {id: true, opens: true, rc: true},
		"HcnCreateNetwork":            {id: true, texts: 1, opens: true, rc: true},
		"HcnCreateEndpoint":           {handle: true, id: true, texts: 1, opens: true, rc: true},
		"HcnCreateNamespace":          {id: true, texts: 1, opens: true, rc: true},
		"HcnQueryEndpointProperties":  {handle: true, texts: 1, output: true, rc: true},
		"HcnQueryNamespaceProperties": {handle: true, texts: 1, output: true, rc: true},
		"HcnModifyNamespace":          {handle: true, texts: 1, rc: true},
		"HcnDeleteEndpoint":           {id: true, rc: true},
		"HcnCloseNetwork":             {handle: true},
	} {
		dll, is, ok := shapeOf(export)
		require.True(t, ok, export)
		require.Equal(t, "computenetwork.dll", dll)
		require.Equal(t, want, is, export)
	}
	dll, is, ok := shapeOf("HNSCall")
	require.True(t, ok)
	require.Equal(t, "vmcompute.dll", dll)
	require.Equal(t, shape{texts: 3, output: true}, is)
	for _, export := range []string{"", "Hcn", "HcnOpe", "DeleteFileW", "HNSCallback"} {
		_, _, ok := shapeOf(export)
		require.False(t, ok, export)
	}
}

// TestRaw: calls are made as they are, one at a time, until it is closed.
func TestRaw(t *testing.T) {
	raw := &Raw{worker: newWorker(defaultDeadline), do: func(export string, a Arguments) (Outcome, error) {
		return Outcome{HResult: 0x803b000d, Record: export + " " + a.ID, Handle: a.Handle}, nil
	}}
	out, err := raw.Call(t.Context(), "HcnOpenNetwork", Arguments{ID: "id", Handle: 7})
	require.NoError(t, err)
	require.Equal(t, Outcome{HResult: 0x803b000d, Record: "HcnOpenNetwork id", Handle: 7}, out, "a failure is an answer")

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = raw.Call(ended, "HcnOpenNetwork", Arguments{})
	require.ErrorIs(t, err, hns.ErrUnavailable)
	raw.Close()
	_, err = raw.Call(t.Context(), "HcnOpenNetwork", Arguments{})
	require.ErrorIs(t, err, hns.ErrUnavailable)
}
