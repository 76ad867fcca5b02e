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

// Names of the suite's network, and of one beside it. Nobody else uses them: what
// bears one is left over from a run that was killed.
const (
	networkName = "winnpm-contract"
	otherName   = "winnpm-contract-other"
)

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

var (
	_ hnstest.Fixture   = (*cni)(nil)
	_ hnstest.Elsewhere = (*cni)(nil)
)

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
	var err error
	c.space, err = hcn.NewNamespace(hcn.NamespaceTypeHost).Create()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.space.Delete()) }) // after its endpoints
	c.network, err = newNetwork(t, networkName, hcn.L2Bridge, "10.90.0.0/16", "10.90.0.1")
	require.NoError(t, err)
	return c
}

// newNetwork makes a network until the test ends, in place of one of the name.
func newNetwork(t *testing.T, name string, kind hcn.NetworkType, subnet, gateway string) (*hcn.HostComputeNetwork, error) {
	t.Helper()
	if old, err := hcn.GetNetworkByName(name); err == nil {
		clean(t, old)
	} else {
		require.True(t, hcn.IsNotFoundError(err), "%v", err)
	}
	made, err := (&hcn.HostComputeNetwork{
		Name: name,
		Type: kind,
		Ipams: []hcn.Ipam{{Type: "Static", Subnets: []hcn.Subnet{{
			IpAddressPrefix: subnet,
			Routes:          []hcn.Route{{NextHop: gateway, DestinationPrefix: "0.0.0.0/0"}},
		}}}},
		SchemaVersion: hcn.V2SchemaVersion(),
	}).Create()
	if err == nil {
		t.Cleanup(func() { clean(t, made) })
	}
	return made, err
}

// clean deletes a network and what is left in it.
func clean(t *testing.T, network *hcn.HostComputeNetwork) {
	t.Helper()
	left, err := hcn.ListEndpointsOfNetwork(network.Id)
	require.NoError(t, err)
	for _, e := range left {
		require.NoError(t, e.Delete())
	}
	require.NoError(t, network.Delete())
}

// CreateEndpoint implements hnstest.Fixture.
func (c *cni) CreateEndpoint(t *testing.T, e hnstest.Endpoint) string {
	t.Helper()
	return c.create(t, c.network.Id, e)
}

// CreateElsewhere implements hnstest.Elsewhere.
func (c *cni) CreateElsewhere(t *testing.T, e hnstest.Endpoint) string {
	t.Helper()
	other, err := newNetwork(t, otherName, hcn.NAT, "10.95.0.0/16", "10.95.0.1")
	if err != nil && c.real {
		t.Skipf("this HNS makes no second network: %v", err)
	}
	require.NoError(t, err)
	return c.create(t, other.Id, e)
}

func (c *cni) create(t *testing.T, network string, e hnstest.Endpoint) string {
	t.Helper()
	settings := &hcn.HostComputeEndpoint{
		HostComputeNetwork: network,
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
