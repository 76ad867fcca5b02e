package windows

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/Microsoft/hcsshim/hcn"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"

	"github.com/winnpm/winnpm/test/hnstest"
)

// The tests here ask hcsshim what the DLLs of ours make of a call; that they
// behave as Windows does is hnsd's to prove.

func newOwn(t *testing.T) *cni {
	t.Helper()
	if realHNS(t) {
		t.Skip("tests the DLLs of test/windows/dll, not Windows")
	}
	return newCNI(t)
}

var firstAddr = netip.MustParseAddr("10.90.0.4")

func TestDLLVersion(t *testing.T) {
	newOwn(t)
	globals, err := hcn.GetGlobals()
	require.NoError(t, err)
	require.Equal(t, hcn.Version{Major: 15}, globals.Version)
}

// Without a server every call is an error, not a wait and not a panic. The
// process that asks is another one, as this one may have connections.
func TestDLLWithoutServer(t *testing.T) {
	if realHNS(t) {
		t.Skip("tests the DLLs of test/windows/dll, not Windows")
	}
	const nobody = "127.0.0.1:1"
	if os.Getenv("HNSD_ADDR") != nobody {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDLLWithoutServer$", "-test.v")
		cmd.Env = append(os.Environ(), "HNSD_ADDR="+nobody)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "--- PASS: TestDLLWithoutServer")
		return
	}
	_, err := hcn.ListNetworks()
	require.True(t, hcn.CheckErrorWithCode(err, hcn.ErrorCode(windows.RPC_S_SERVER_UNAVAILABLE)), "%v", err)
	_, err = hcn.ListEndpoints()
	require.True(t, hcn.CheckErrorWithCode(err, hcn.ErrorCode(windows.RPC_S_SERVER_UNAVAILABLE)), "%v", err)
	_, err = hcn.GetGlobals()
	require.ErrorContains(t, err, "(0x6ba)") // no HcnError, nothing to unwrap
}

func TestDLLErrorCode(t *testing.T) {
	newOwn(t)
	err := (&hcn.HostComputeEndpoint{Id: "01234567-89AB-CDEF-0123-456789ABCDEF"}).Delete()
	require.True(t, hcn.CheckErrorWithCode(err, hcn.ErrorCode(windows.HCN_E_ENDPOINT_NOT_FOUND)), "%v", err)
	require.ErrorContains(t, err, "01234567-89AB-CDEF-0123-456789ABCDEF", "the GUID crossed as it was")
	require.ErrorContains(t, err, `"Success":false`)
}

// UTF-16 has two units for what lies beyond the Basic Multilingual Plane.
func TestDLLSurrogates(t *testing.T) {
	c := newOwn(t)
	const text = "Grüße, 世界 🚀"
	settings, err := json.Marshal(map[string]string{"Remark": text})
	require.NoError(t, err)
	id, err := c.CreateEndpoint(t, hnstest.Endpoint{Addrs: []netip.Addr{firstAddr}})
	require.NoError(t, err)
	err = (&hcn.HostComputeEndpoint{Id: id}).ApplyPolicy(hcn.RequestTypeUpdate, hcn.PolicyEndpointRequest{
		Policies: []hcn.EndpointPolicy{{Type: "Other", Settings: settings}},
	})
	require.NoError(t, err)
	e, err := hcn.GetEndpointByID(id)
	require.NoError(t, err)
	require.Len(t, e.Policies, 1)
	require.JSONEq(t, string(settings), string(e.Policies[0].Settings))
}

func TestDLLNoSets(t *testing.T) {
	c := newOwn(t)
	n, err := hcn.GetNetworkByID(c.network.Id)
	require.NoError(t, err)
	require.Empty(t, setValues(t, n))

	id, err := c.CreateEndpoint(t, hnstest.Endpoint{Addrs: []netip.Addr{firstAddr}})
	require.NoError(t, err)
	err = (&hcn.HostComputeEndpoint{Id: id}).ApplyPolicy(hcn.RequestTypeUpdate, hcn.PolicyEndpointRequest{})
	require.NoError(t, err, "an update without policies clears the endpoint")
}

func TestDLLBigSet(t *testing.T) {
	c := newOwn(t)
	values := make([]string, 20_000)
	for i := range values {
		values[i] = fmt.Sprintf("10.%d.%d.%d", 100+i/65536, i/256%256, i%256)
	}
	want := strings.Join(values, ",")
	require.NoError(t, c.network.AddPolicy(setRequest(t, "azure-npm-big", want)))
	n, err := hcn.GetNetworkByName(networkName)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"azure-npm-big": want}, setValues(t, n))
	require.NoError(t, c.network.RemovePolicy(setRequest(t, "azure-npm-big", want)))
}

// More calls at once than connections are kept, and more in all than the machine
// has ports.
func TestDLLManyCalls(t *testing.T) {
	c := newOwn(t)
	var all sync.WaitGroup
	errs := make([]error, 16)
	for i := range errs {
		all.Go(func() {
			for range 500 {
				if _, err := hcn.GetNetworkByID(c.network.Id); err != nil { // four calls
					errs[i] = err
				}
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
}

func setRequest(t *testing.T, id, values string) hcn.PolicyNetworkRequest {
	t.Helper()
	settings, err := json.Marshal(hcn.SetPolicySetting{Id: id, Name: id, Type: hcn.SetPolicyTypeIpSet, Values: values})
	require.NoError(t, err)
	return hcn.PolicyNetworkRequest{Policies: []hcn.NetworkPolicy{{Type: hcn.SetPolicy, Settings: settings}}}
}

// setValues returns the values of every set of a network, by Id.
func setValues(t *testing.T, n *hcn.HostComputeNetwork) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, p := range n.Policies {
		if p.Type != hcn.SetPolicy {
			continue
		}
		var set hcn.SetPolicySetting
		require.NoError(t, json.Unmarshal(p.Settings, &set))
		out[set.Id] = set.Values
	}
	return out
}
