package windows

import (
	"net/netip"
	"os"
	"testing"

	"github.com/Microsoft/hcsshim/hcn"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"

	"github.com/winnpm/winnpm/pkg/hns/hnstest"
)

// networkName is that of the suite's network. Nobody else uses it: what bears
// it is left over from a run that was killed.
const networkName = "winnpm-contract"

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

// cni is the hand that makes endpoints: what a CNI plugin does for a pod.
type cni struct {
	network *hcn.HostComputeNetwork
	space   *hcn.HostComputeNamespace
	real    bool
}

// newCNI makes the network and a namespace until the test ends.
func newCNI(t *testing.T) *cni {
	t.Helper()
	c := &cni{real: realHNS(t)}
	old, err := hcn.GetNetworkByName(networkName)
	if err == nil {
		c.network = old
		c.clean(t)
	} else {
		require.True(t, hcn.IsNotFoundError(err), "%v", err)
	}
	c.space, err = hcn.NewNamespace(hcn.NamespaceTypeHost).Create()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.space.Delete()) }) // after its endpoints
	c.network, err = (&hcn.HostComputeNetwork{
		Name: networkName,
		Type: hcn.L2Bridge,
		Ipams: []hcn.Ipam{{Type: "Static", Subnets: []hcn.Subnet{{
			IpAddressPrefix: "10.90.0.0/16",
			Routes:          []hcn.Route{{NextHop: "10.90.0.1", DestinationPrefix: "0.0.0.0/0"}},
		}}}},
		SchemaVersion: hcn.V2SchemaVersion(),
	}).Create()
	require.NoError(t, err)
	t.Cleanup(func() { c.clean(t) })
	return c
}

// clean deletes the network and what is left in it.
func (c *cni) clean(t *testing.T) {
	t.Helper()
	left, err := hcn.ListEndpointsOfNetwork(c.network.Id)
	require.NoError(t, err)
	for _, e := range left {
		require.NoError(t, e.Delete())
	}
	require.NoError(t, c.network.Delete())
}

// CreateEndpoint implements hnstest.Fixture.
func (c *cni) CreateEndpoint(t *testing.T, e hnstest.Endpoint) string {
	t.Helper()
	settings := &hcn.HostComputeEndpoint{
		HostComputeNetwork: c.network.Id,
		Policies:           []hcn.EndpointPolicy{},
		SchemaVersion:      hcn.V2SchemaVersion(),
	}
	for _, a := range e.Addrs {
		settings.IpConfigurations = append(settings.IpConfigurations, ipConfig(a))
	}
	for _, p := range e.Foreign {
		settings.Policies = append(settings.Policies, hcn.EndpointPolicy{
			Type: hcn.EndpointPolicyType(p.Type), Settings: p.Settings,
		})
	}
	if e.Remote {
		settings.Flags = hcn.EndpointFlagsRemoteEndpoint
	}
	made, err := settings.Create()
	if err != nil && c.real && (e.Remote || len(e.Addrs) > 1) {
		t.Skipf("this HNS makes no such endpoint on an L2Bridge: %v", err)
	}
	require.NoError(t, err)
	if !e.Detached && !e.Remote {
		require.NoError(t, hcn.AddNamespaceEndpoint(c.space.Id, made.Id))
	}
	return made.Id
}

// DeleteEndpoint implements hnstest.Fixture.
func (c *cni) DeleteEndpoint(t *testing.T, id string) {
	t.Helper()
	err := (&hcn.HostComputeEndpoint{Id: id}).Delete()
	if hcn.CheckErrorWithCode(err, hcn.ErrorCode(windows.HCN_E_ENDPOINT_NOT_FOUND)) || hcn.IsElementNotFoundError(err) {
		return
	}
	require.NoError(t, err)
}

func ipConfig(a netip.Addr) hcn.IpConfig {
	return hcn.IpConfig{IpAddress: a.String(), PrefixLength: 16}
}
