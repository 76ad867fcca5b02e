package hnssim

import (
	gocmp "cmp"
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
)

func TestReadBackIsNormalised(t *testing.T) {
	s := newTown(t)
	a := allow(func(a *hns.ACL) { a.Protocols, a.LocalPorts = "", "" })
	want := `{"Action":"Allow","Direction":"In","Id":"azure-acl-x.test","LocalAddresses":"` + derivedID("web") +
		`","Priority":222,"Protocols":"256","RuleType":"Switch","Scope":0,"Type":"ACL"}`
	read := func() string {
		e, err := s.GetEndpoint(t.Context(), "ep-1")
		require.NoError(t, err)
		return string(e.Policies[len(e.Policies)-1].Settings)
	}
	require.NoError(t, s.AddACLs(t.Context(), "ep-1", []hns.ACL{a}))
	require.Equal(t, want, read())
	require.NoError(t, s.ReplacePolicies(t.Context(), "ep-1", []hns.EndpointPolicy{hns.NewACLPolicy(a)}))
	require.Equal(t, want, read())
	require.NotEqual(t, want, string(hns.NewACLPolicy(a).Settings), "it is not what was sent")

	foreign := `{"Priority": 65500, "Action":"Allow",  "Direction":"Out","Extra":[1]}`
	require.NoError(t, s.ReplacePolicies(t.Context(), "ep-1", []hns.EndpointPolicy{{Type: "ACL", Settings: []byte(foreign)}}))
	require.Equal(t, foreign, read())
}

func TestNetworkID(t *testing.T) {
	for _, o := range []Options{{ID: "one"}, {}} {
		network, err := New(o).Network(t.Context())
		require.NoError(t, err)
		require.Equal(t, gocmp.Or(o.ID, networkID), network.ID)
	}
}

func TestAddDuplicates(t *testing.T) {
	s := newTown(t)
	for range 2 {
		require.NoError(t, s.AddACLs(t.Context(), "ep-1", []hns.ACL{allow(nil)}))
	}
	e, err := s.GetEndpoint(t.Context(), "ep-1")
	require.NoError(t, err)
	ours, _ := e.Split()
	require.Equal(t, []hns.ACL{allow(nil), allow(nil)}, ours[1:])
}

func TestForeignPoliciesOfNewEndpoints(t *testing.T) {
	s := New(Options{Foreign: DefaultForeign()})
	require.NoError(t, s.CreateEndpoint(SimEndpoint{ID: "base"}))
	require.NoError(t, s.CreateEndpoint(SimEndpoint{ID: "bare", Policies: []hns.EndpointPolicy{}}))
	base, err := s.GetEndpoint(t.Context(), "base")
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(DefaultForeign(), base.Policies))
	ours, foreign := base.Split()
	require.Empty(t, ours)
	require.Len(t, foreign, 4)
	bare, err := s.GetEndpoint(t.Context(), "bare")
	require.NoError(t, err)
	require.Empty(t, bare.Policies)
}

func TestStatesAndNetworksInAListing(t *testing.T) {
	s := New(Options{Network: "Calico"})
	addr := []netip.Addr{netip.MustParseAddr("10.0.0.4")}
	require.NoError(t, s.CreateEndpoint(SimEndpoint{ID: "one", Addrs: addr}))
	require.NoError(t, s.CreateEndpoint(SimEndpoint{ID: "azure", Addrs: addr, Network: "azure"}))
	listed := func() bool {
		ids, err := s.EndpointIDs(t.Context())
		require.NoError(t, err)
		require.LessOrEqual(t, len(ids), 1, "the other network's is never listed")
		return len(ids) == 1 && ids[0] == "one"
	}
	for state := Uninitialized; state <= Destroyed; state++ {
		require.NoError(t, s.SetState("one", state))
		require.Equal(t, state == Attached || state == AttachedSharing, listed(), state)
		_, err := s.GetEndpoint(t.Context(), "one")
		require.NoError(t, err)
	}
	require.Equal(t, "EndpointState(7)", (Destroyed + 1).String())

	network, err := s.Network(t.Context())
	require.NoError(t, err)
	require.Equal(t, "Calico", network.Name)
	views := s.Endpoints()
	require.Equal(t, []string{"azure", "one"}, []string{views[0].ID, views[1].ID})
	require.Equal(t, SimEndpoint{ID: "one", Addrs: addr, State: Destroyed, Network: "Calico", Policies: []hns.EndpointPolicy{}}, views[1])
	view, ok := s.Endpoint("one")
	require.True(t, ok)
	require.Equal(t, views[1], view)
	_, ok = s.Endpoint("two")
	require.False(t, ok)
}

// TestSharedIsBounded: what is shared does not grow with what was ever written.
func TestSharedIsBounded(t *testing.T) {
	s := New(Options{})
	for i := range 3 * maxShared {
		_, r := s.readPolicy(&endpoint{SimEndpoint: SimEndpoint{Network: s.network}}, hns.EndpointPolicy{Type: "x", Settings: fmt.Appendf(nil, `{"i":%d}`, i)})
		require.Nil(t, r)
		require.LessOrEqual(t, len(s.shared), maxShared)
	}
}
