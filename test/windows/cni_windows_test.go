package windows

import (
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/Microsoft/hcsshim/hcn"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"

	"github.com/winnpm/winnpm/test/hnstest"
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
}

// newCNI makes the network and a namespace until the test ends, after what an earlier run left
// was taken away.
func newCNI(t *testing.T) *cni {
	t.Helper()
	realHNS(t)
	clean := func() {
		_, err := sweep()
		require.NoError(t, err)
	}
	clean()
	t.Cleanup(clean)
	require.NoError(t, makeNamespace())
	c := &cni{}
	var err error
	c.network, err = newNetwork(networkName, hcn.L2Bridge, "10.90.0.0/16", "10.90.0.1")
	require.NoError(t, err)
	return c
}

// newNetwork makes a network, which is swept when the test ends.
func newNetwork(name string, kind hcn.NetworkType, subnet, gateway string) (*hcn.HostComputeNetwork, error) {
	return (&hcn.HostComputeNetwork{
		Name: name,
		Type: kind,
		Ipams: []hcn.Ipam{{Type: "Static", Subnets: []hcn.Subnet{{
			IpAddressPrefix: subnet,
			Routes:          []hcn.Route{{NextHop: gateway, DestinationPrefix: "0.0.0.0/0"}},
		}}}},
		SchemaVersion: hcn.V2SchemaVersion(),
	}).Create()
}

// CreateEndpoint implements hnstest.Fixture.
func (c *cni) CreateEndpoint(t hnstest.T, e hnstest.Endpoint) (string, error) {
	t.Helper()
	return create(t, c.network.Id, e)
}

// CreateElsewhere implements hnstest.Elsewhere.
func (c *cni) CreateElsewhere(t hnstest.T, e hnstest.Endpoint) (string, error) {
	t.Helper()
	other, err := newNetwork(otherName, hcn.NAT, "10.95.0.0/16", "10.95.0.1")
	if err != nil {
		return "", err
	}
	// Its address is one of the other network's, or HNS would refuse it for that.
	e.Addrs = slices.Clone(e.Addrs)
	for i, a := range e.Addrs {
		bytes := a.As4()
		bytes[1] = 95
		e.Addrs[i] = netip.AddrFrom4(bytes)
	}
	return create(t, other.Id, e)
}

// create makes an endpoint and attaches it. What cannot be attached is taken away again.
func create(t hnstest.T, network string, e hnstest.Endpoint) (string, error) {
	t.Helper()
	settings := &hcn.HostComputeEndpoint{
		Name:               networkName,
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
	if err != nil || e.Detached || e.Remote {
		return idOf(made), err
	}
	if err := hcn.AddNamespaceEndpoint(namespaceID, made.Id); err != nil {
		require.NoError(t, made.Delete())
		return "", err
	}
	return made.Id, nil
}

func idOf(e *hcn.HostComputeEndpoint) string {
	if e == nil {
		return ""
	}
	return e.Id
}

// DeleteEndpoint implements hnstest.Fixture.
func (c *cni) DeleteEndpoint(t hnstest.T, id string) {
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
