package hcsadapter

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/cnis"
	"github.com/winnpm/winnpm/test/windows/hnsd"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// nodeOf returns a node with some networks and endpoints of them.
func nodeOf(t *testing.T, networks []network, endpoints []endpoint) *simNode {
	t.Helper()
	n := newSimNode(t, hnsd.Options{Bare: true})
	names := map[string]string{}
	for _, net := range networks {
		names[net.ID] = net.Name
		sim, err := n.AddNetwork(net.ID, net.Name, net.Type)
		require.NoError(t, err)
		for _, set := range net.decode().Sets {
			require.NoError(t, sim.PutSet(set))
		}
	}
	for _, e := range endpoints {
		require.NoError(t, n.AddEndpoint(hnssim.SimEndpoint{ID: e.ID, Network: names[e.HostComputeNetwork], Remote: e.remote(), Policies: e.Policies}))
	}
	return n
}

// deaf ignores filters by a key.
type deaf struct {
	library
	key string
}

func (d deaf) enumerate(k kind, query string) (string, error) {
	if strings.Contains(query, d.key) {
		query = hcnQuery("")
	}
	return d.library.enumerate(k, query)
}

// found is the network that an adapter without a name finds, or its error.
func found(t *testing.T, n library) (string, error) {
	t.Helper()
	a := newFound(Options{Now: time.Now}, n)
	defer a.Close()
	got, err := a.Network(context.WithoutCancel(t.Context()))
	return got.Name, err
}

// TestDiscover: without a name the network is found that has endpoints of this node, of a
// type that pods are on.
func TestDiscover(t *testing.T) {
	of := func(ids ...string) (out []endpoint) {
		for i, id := range ids {
			out = append(out, endpoint{ID: "ep-" + string(rune('a'+i)), HostComputeNetwork: strings.TrimPrefix(id, "remote "), Flags: map[bool]uint32{true: remoteEndpoint}[strings.HasPrefix(id, "remote ")]})
		}
		return out
	}
	for name, test := range map[string]struct {
		networks  []network
		endpoints []endpoint
		want      string
		err       error
		says      string
	}{
		"azure": {[]network{{ID: "1", Name: "ext", Type: "L2Bridge"}, {ID: "2", Name: "azure", Type: "L2Bridge"}}, nil, "azure", nil, ""},
		"flannel l2bridge, beside the nat of docker": {
			[]network{{ID: "1", Name: "nat", Type: "NAT"}, {ID: "2", Name: "cbr0", Type: "L2Bridge"}}, of("1", "2"), "cbr0", nil, "",
		},
		"flannel vxlan, with endpoints of other nodes": {
			[]network{{ID: "1", Name: "External", Type: "Overlay"}, {ID: "2", Name: "vxlan0", Type: "Overlay"}}, of("remote 1", "remote 2", "2"), "vxlan0", nil, "",
		},
		"Calico, beside what keeps the switch": {
			[]network{{ID: "1", Name: "External", Type: "L2Bridge"}, {ID: "2", Name: "Calico", Type: "L2Bridge"}}, of("2"), "Calico", nil, "",
		},
		"a tunnel": {[]network{{ID: "2", Name: "vpcbr0a1b", Type: "l2tunnel"}}, of("2"), "vpcbr0a1b", nil, ""},
		"no pod yet": {
			[]network{{ID: "1", Name: "nat", Type: "NAT"}, {ID: "2", Name: "cbr0", Type: "L2Bridge"}}, of("1"), "", hns.ErrNotFound, "has an endpoint of a pod of this node",
		},
		"none": {nil, nil, "", hns.ErrNotFound, "has an endpoint of a pod of this node"},
		"several": {
			[]network{{ID: "1", Name: "b", Type: "L2Bridge"}, {ID: "2", Name: "a", Type: "Overlay"}}, of("1", "2"), "a+b", nil, "",
		},
	} {
		for _, isDeaf := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				var n library = nodeOf(t, test.networks, test.endpoints)
				if isDeaf {
					n = deaf{n, "VirtualNetwork"}
				}
				got, err := found(t, n)
				require.ErrorIs(t, err, test.err)
				require.Equal(t, test.want, got)
				if test.err != nil {
					require.ErrorContains(t, err, test.says)
				}
			})
		}
	}
}

// TestDiscoverCNIs finds the network of the pods of each CNI, whatever else the node has.
func TestDiscoverCNIs(t *testing.T) {
	for _, c := range cnis.All() {
		t.Run(c.Name, func(t *testing.T) {
			networks := []network{{ID: "pods", Name: c.Network.Name, Type: c.Network.Type}}
			var endpoints []endpoint
			for i, other := range c.Beside {
				networks = append([]network{{ID: other.Name, Name: other.Name, Type: other.Type}}, networks...)
				if other.Type == "NAT" { // of containers that are no pods
					endpoints = append(endpoints, endpoint{ID: fmt.Sprint("container-", i), HostComputeNetwork: other.Name})
				}
			}
			endpoints = append(endpoints, endpoint{ID: "pod", HostComputeNetwork: "pods", Policies: c.Endpoint})
			got, err := found(t, nodeOf(t, networks, endpoints))
			require.NoError(t, err)
			require.Equal(t, c.Network.Name, got)
		})
	}
}

// TestDiscoverCosts: a node with the usual network costs what a name costs, and what was
// found is read by its name from then on, until it is gone.
func TestDiscoverCosts(t *testing.T) {
	n := newSimNode(t, hnsd.Options{})
	before := n.calls()
	_, err := found(t, n)
	require.NoError(t, err)
	require.Equal(t, 4, n.calls()-before)

	n = newSimNode(t, hnsd.Options{Network: "cbr0"})
	require.NoError(t, n.AddEndpoint(hnssim.SimEndpoint{ID: "e"}))
	a := newFound(Options{Now: time.Now}, n)
	defer a.Close()
	getNetwork(t, a)
	before = n.calls()
	getNetwork(t, a)
	require.Equal(t, 4, n.calls()-before)

	n.deleteEndpoint(t, "e")
	n.remake("2", "vxlan0")
	_, err = a.Network(t.Context())
	require.ErrorIs(t, err, hns.ErrNotFound)
	require.NoError(t, n.AddEndpoint(hnssim.SimEndpoint{ID: "e"}))
	got := getNetwork(t, a)
	require.Equal(t, hns.Network{ID: "2", Name: "vxlan0"}, got)
}

// TestDiscoverOurs: a network with a set of ours is found without an endpoint by whoever knows
// no pods, as npm uninstall.
func TestDiscoverOurs(t *testing.T) {
	set := func(id string) []hns.EndpointPolicy {
		return []hns.EndpointPolicy{{Type: policyTypeSet, Settings: json.RawMessage(`{"Id":"` + id + `","Name":"ns-x","PolicyType":"IPSET","Values":""}`)}}
	}
	n := nodeOf(t, []network{{ID: "1", Name: "theirs", Type: "L2Bridge", Policies: set("calico-1")}, {ID: "2", Name: "cbr0", Type: "L2Bridge", Policies: set("Azure-NPM-1")}}, nil)
	got, err := found(t, n)
	require.NoError(t, err)
	require.Equal(t, "cbr0", got)

	a := newFound(Options{Now: time.Now}, n)
	defer a.Close()
	a.OnlyOf(func(netip.Addr) bool { return false })
	_, err = a.Network(t.Context())
	require.ErrorIs(t, err, hns.ErrNotFound)
}

// TestNamedNetwork: a name decides alone.
func TestNamedNetwork(t *testing.T) {
	n := nodeOf(t, []network{{ID: "1", Name: "cbr0", Type: "L2Bridge"}}, []endpoint{{ID: "e", HostComputeNetwork: "1"}})
	a := newAdapter(Options{Network: "Calico"}, n)
	defer a.Close()
	_, err := a.Network(t.Context())
	require.ErrorIs(t, err, hns.ErrNotFound)
	require.Equal(t, 1, n.calls())
}

// TestDiscoverUnreadable: an endpoint that cannot be read counts for no network, a network
// that is gone is none, and while HNS fails nothing is found.
func TestDiscoverUnreadable(t *testing.T) {
	n := newFaulty(nodeOf(t,
		[]network{{ID: "1", Name: "gone", Type: "L2Bridge"}, {ID: "2", Name: "cbr0", Type: "L2Bridge"}},
		[]endpoint{{ID: "bad", HostComputeNetwork: "2"}, {ID: "good", HostComputeNetwork: "2"}}))
	fails := map[string]error{"HcnOpenNetwork 1": coded(codeNetworkNotFound), "HcnOpenEndpoint bad": coded(codeDegraded)}
	n.before = func(call string) error { return fails[call] }
	got, err := found(t, n)
	require.NoError(t, err)
	require.Equal(t, "cbr0", got)
	fails["HcnOpenNetwork 2"] = coded(codeRPC)
	_, err = found(t, n)
	require.ErrorIs(t, err, hns.ErrUnavailable)
}
