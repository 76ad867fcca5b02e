package hcsadapter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/cnis"
)

// node is a node with some networks, as the DLLs show it: what discovery needs, and nothing
// to write to.
type node struct {
	networks  []network
	endpoints []endpoint
	deaf      bool // the filter by network is ignored
	calls     int
	fails     map[string]error // by what is opened
	opened    []string
}

func (n *node) enumerate(k kind, query string) (string, error) {
	n.calls++
	var q struct{ Filter string }
	var want struct {
		Name, VirtualNetwork, ID string
		State                    int
	}
	if err := json.Unmarshal([]byte(query), &q); err != nil {
		return "", err
	}
	if q.Filter != "" {
		if err := json.Unmarshal([]byte(q.Filter), &want); err != nil {
			return "", err
		}
	}
	ids := []string{}
	if k == kindNetwork {
		for _, net := range n.networks {
			if want.Name == "" || want.Name == net.Name {
				ids = append(ids, net.ID)
			}
		}
		return encode(ids)
	}
	for _, e := range n.endpoints {
		if (want.VirtualNetwork == "" || n.deaf || want.VirtualNetwork == e.HostComputeNetwork) && (want.ID == "" || want.ID == e.ID) {
			ids = append(ids, e.ID)
		}
	}
	return encode(ids)
}

func (n *node) open(_ kind, id string) (handle, error) {
	n.calls++
	if err := n.fails[id]; err != nil {
		return 0, err
	}
	n.opened = append(n.opened, id)
	return handle(len(n.opened)), nil
}

func (n *node) query(k kind, h handle, _ string) (string, error) {
	n.calls++
	id := n.opened[h-1]
	for _, net := range n.networks {
		if k == kindNetwork && net.ID == id {
			return encode(net)
		}
	}
	for _, e := range n.endpoints {
		if k == kindEndpoint && e.ID == id {
			return encode(e)
		}
	}
	return "", &failure{code: codeNetworkNotFound, err: errors.New("gone")}
}

func (n *node) modify(kind, handle, string) error { panic("BUG: discovery writes") }

func (n *node) close(kind, handle) error {
	n.calls++
	return nil
}

// found is the network that an adapter without a name finds, or its error.
func found(t *testing.T, n *node) (string, error) {
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
		for _, deaf := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				got, err := found(t, &node{networks: test.networks, endpoints: test.endpoints, deaf: deaf})
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
			n := &node{networks: []network{{ID: "pods", Name: c.Network.Name, Type: c.Network.Type}}}
			for i, other := range c.Beside {
				n.networks = append([]network{{ID: other.Name, Name: other.Name, Type: other.Type}}, n.networks...)
				if other.Type == "NAT" { // of containers that are no pods
					n.endpoints = append(n.endpoints, endpoint{ID: fmt.Sprint("container-", i), HostComputeNetwork: other.Name})
				}
			}
			n.endpoints = append(n.endpoints, endpoint{ID: "pod", HostComputeNetwork: "pods", Policies: c.Endpoint})
			got, err := found(t, n)
			require.NoError(t, err)
			require.Equal(t, c.Network.Name, got)
		})
	}
}

// TestDiscoverCosts: a node with the usual network costs what a name costs, and what was
// found is read by its name from then on, until it is gone.
func TestDiscoverCosts(t *testing.T) {
	n := &node{networks: []network{{ID: "1", Name: "azure", Type: "L2Bridge"}}}
	_, err := found(t, n)
	require.NoError(t, err)
	require.Equal(t, 4, n.calls)

	n = &node{networks: []network{{ID: "1", Name: "cbr0", Type: "L2Bridge"}}, endpoints: []endpoint{{ID: "e", HostComputeNetwork: "1"}}}
	a := newFound(Options{Now: time.Now}, n)
	defer a.Close()
	_, err = a.Network(t.Context())
	require.NoError(t, err)
	n.calls = 0
	_, err = a.Network(t.Context())
	require.NoError(t, err)
	require.Equal(t, 4, n.calls)

	n.networks[0] = network{ID: "2", Name: "vxlan0", Type: "Overlay"}
	_, err = a.Network(t.Context())
	require.ErrorIs(t, err, hns.ErrNotFound)
	n.endpoints[0].HostComputeNetwork = "2"
	got, err := a.Network(t.Context())
	require.NoError(t, err)
	require.Equal(t, hns.Network{ID: "2", Name: "vxlan0"}, got)
}

// TestDiscoverOurs: a network with a set of ours is found without an endpoint by whoever knows
// no pods, as npm uninstall.
func TestDiscoverOurs(t *testing.T) {
	set := func(id string) []hns.EndpointPolicy {
		return []hns.EndpointPolicy{{Type: policyTypeSet, Settings: json.RawMessage(`{"Id":"` + id + `","Name":"ns-x","PolicyType":"IPSET","Values":""}`)}}
	}
	n := &node{networks: []network{{ID: "1", Name: "theirs", Type: "L2Bridge", Policies: set("calico-1")}, {ID: "2", Name: "cbr0", Type: "L2Bridge", Policies: set("Azure-NPM-1")}}}
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
	n := &node{networks: []network{{ID: "1", Name: "cbr0", Type: "L2Bridge"}}, endpoints: []endpoint{{ID: "e", HostComputeNetwork: "1"}}}
	a := newAdapter(Options{Network: "Calico"}, n)
	defer a.Close()
	_, err := a.Network(t.Context())
	require.ErrorIs(t, err, hns.ErrNotFound)
	require.Equal(t, 1, n.calls)
}

// TestDiscoverUnreadable: an endpoint that cannot be read counts for no network, a network
// that is gone is none, and while HNS fails nothing is found.
func TestDiscoverUnreadable(t *testing.T) {
	const unreadable = 0x803B0017
	n := &node{
		networks:  []network{{ID: "1", Name: "gone", Type: "L2Bridge"}, {ID: "2", Name: "cbr0", Type: "L2Bridge"}},
		endpoints: []endpoint{{ID: "bad", HostComputeNetwork: "2"}, {ID: "good", HostComputeNetwork: "2"}},
		fails:     map[string]error{"1": &failure{code: codeNetworkNotFound, err: errors.New("gone")}, "bad": &failure{code: unreadable, err: errors.New("degraded")}},
	}
	got, err := found(t, n)
	require.NoError(t, err)
	require.Equal(t, "cbr0", got)
	n.fails["2"] = &failure{code: 0x800706BA, err: errors.New("no RPC server")}
	_, err = found(t, n)
	require.ErrorIs(t, err, hns.ErrUnavailable)
}
