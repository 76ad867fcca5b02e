// Package windows has tests for a Windows node (NPM_HNS=1), and for Wine, where hnsd answers by way of
// the DLLs in dll (HNSD_ADDR).
package windows

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/Microsoft/hcsshim/hcn"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/hcsadapter"
	"github.com/winnpm/winnpm/test/hnstest"
)

// nodeOf makes the contract suite's network, for an agent to program, until the test ends. What an
// earlier run left is taken away first.
func nodeOf(t *testing.T) *hnstest.Node {
	t.Helper()
	realHNS(t)
	n := &hnstest.Node{HNS: hnstest.ThisHNS()}
	t.Cleanup(func() { require.NoError(t, n.Clean()) })
	require.NoError(t, n.Make("L2Bridge"))
	return n
}

// realHNS reports whether HNS itself is asked. It skips the test when nobody
// said that this system may be used.
func realHNS(t *testing.T) bool {
	t.Helper()
	if os.Getenv("HNSD_ADDR") != "" {
		return false
	}
	if os.Getenv("NPM_HNS") != "1" {
		t.Skip("set NPM_HNS=1 to make a network on this node, or HNSD_ADDR for test/windows/hnsd")
	}
	return true
}

// TestReads: what the adapter reads is what hcsshim reads, also of a set with 20,000 members.
func TestReads(t *testing.T) {
	c := nodeOf(t)
	a, err := hcsadapter.New(hcsadapter.Options{Network: hnstest.NetworkName})
	require.NoError(t, err)
	t.Cleanup(a.Close)
	big := hns.SetPolicy{ID: "azure-npm-1000000", Name: "podlabel-Grüße, 世界 🚀:<a&b>", Type: hns.IPSet}
	for m := range 20_000 {
		big.Values = append(big.Values, fmt.Sprintf("10.%d.%d.%d", 100+m/65536, m/256%256, m%256))
	}
	require.NoError(t, a.ModifySets(t.Context(), hns.Add, []hns.SetPolicy{big}))
	id, err := c.CreateEndpoint(hnstest.Endpoint{Addrs: []netip.Addr{nth(0)}, Foreign: []hns.EndpointPolicy{
		{Type: "OutBoundNAT", Settings: []byte(`{"Exceptions":["10.0.0.0/8"]}`)},
	}})
	require.NoError(t, err)

	theirs, err := hcn.GetNetworkByName(hnstest.NetworkName)
	require.NoError(t, err)
	ours, err := a.Network(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{theirs.Id, theirs.Name}, []string{ours.ID, ours.Name})
	require.Equal(t, setValues(t, theirs), map[string]string{big.ID: strings.Join(big.Values, ",")})
	require.Equal(t, []hns.SetPolicy{big}, ours.Sets)

	ids, err := a.EndpointIDs(t.Context())
	require.NoError(t, err)
	require.Len(t, ids, 1)
	e, err := a.GetEndpoint(t.Context(), ids[0])
	require.NoError(t, err)
	shown, err := hcn.GetEndpointByID(id)
	require.NoError(t, err)
	require.Equal(t, shown.Id, e.ID)
	require.Equal(t, shown.IpConfigurations, []hcn.IpConfig{{IpAddress: e.Addrs[0].String(), PrefixLength: 16}})
	require.Len(t, e.Policies, len(shown.Policies))
	for i, p := range shown.Policies {
		require.Equal(t, string(p.Type), e.Policies[i].Type)
		require.JSONEq(t, string(p.Settings), string(e.Policies[i].Settings))
	}
}

func nth(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 90, 0, byte(4 + i)}) }

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
