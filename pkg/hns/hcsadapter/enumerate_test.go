package hcsadapter

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// enumerates returns the GUIDs that EndpointIDs returns, sorted, and the calls.
func enumerates(t *testing.T, a *Adapter, f *faulty) (ids, calls []string) {
	f.calls = nil
	ids, err := a.EndpointIDs(t.Context())
	require.NoError(t, err)
	slices.Sort(ids)
	return ids, f.calls
}

var callsWide = []string{listState2, listState3}

// onOthers returns an adapter that has read the network. Beside ep there are an
// endpoint of Hyper-V, a remote one, and two of other networks.
func onOthers(t *testing.T) (*Adapter, *faulty, *simNode) {
	t.Helper()
	a, f, s := onFaulty(t)
	_, err := s.AddNetwork("nat", "nat", "NAT")
	require.NoError(t, err)
	for _, n := range []hnssim.SimEndpoint{
		{ID: "hyper-v", State: hnssim.Attached},
		{ID: "remote", Remote: true},
		{ID: "other", Network: "nat"},
		{ID: "another", Network: "nat"},
		{ID: "created", State: hnssim.Created},
	} {
		require.NoError(t, s.AddEndpoint(n))
	}
	getNetwork(t, a)
	return a, f, s
}

// TestEndpointIDs: the endpoints of other networks are among them, and those that nothing uses yet
// are not.
func TestEndpointIDs(t *testing.T) {
	a, f, _ := onOthers(t)
	for range 2 {
		ids, calls := enumerates(t, a, f)
		require.Equal(t, []string{"another", "ep", "hyper-v", "other", "remote"}, ids)
		require.Equal(t, callsWide, calls)
	}
	for _, id := range []string{"other", "remote"} {
		_, err := a.GetEndpoint(t.Context(), id)
		require.ErrorIs(t, err, hns.ErrElsewhere)
	}
}

// TestElsewhere: an endpoint of another network costs a look at ours, and others
// of that network none.
func TestElsewhere(t *testing.T) {
	a, f, s := onOthers(t)
	f.calls = nil
	for _, id := range []string{"other", "another", "other", "remote"} {
		_, err := a.GetEndpoint(t.Context(), id)
		wantError(t, err, hns.ErrElsewhere, "Endpoint/Get", hns.KindEndpoint, id, 0)
		require.False(t, hns.EndpointGone(err))
	}
	require.Equal(t, slices.Concat(reads(kindEndpoint, "other"), readsNetwork(s.id), reads(kindEndpoint, "another", "other", "remote")), f.calls)

	s.remake("00000000-0000-0000-0000-000000000002", "azure")
	f.calls = nil
	_, err := a.GetEndpoint(t.Context(), "ep")
	require.NoError(t, err, "our network was made anew")
	require.Equal(t, slices.Concat(reads(kindEndpoint, "ep"), readsNetwork(s.id)), f.calls)
	_, err = a.GetEndpoint(t.Context(), "other")
	require.ErrorIs(t, err, hns.ErrElsewhere)
	require.Equal(t, 2, countOf(f.calls, findNetwork), "what was seen beside the old one is forgotten")
}

// TestGetWithoutNetwork: which endpoints are ours is not known without it.
func TestGetWithoutNetwork(t *testing.T) {
	for _, code := range []uint32{codeRPC, codeFail, codeNetworkNotFound} {
		a, f, _ := onFaulty(t)
		f.before = failing("HcnEnumerateNetworks", code, always)
		_, err := a.GetEndpoint(t.Context(), "ep")
		wantError(t, err, hns.ErrUnavailable, "Endpoint/Get", hns.KindEndpoint, "ep", code)
		_, err = a.EndpointIDs(t.Context())
		wantError(t, err, hns.ErrUnavailable, "Endpoint/Enumerate", hns.KindNetwork, "azure", code)
	}
}

// TestEndpointIDsFails: no list is returned unless both calls worked.
func TestEndpointIDsFails(t *testing.T) {
	for code, class := range map[uint32]error{
		codeRPC: hns.ErrUnavailable, codeFail: hns.ErrUnlisted, codeInvalidArgument: hns.ErrUnlisted, 0: hns.ErrUnlisted,
		codeNetworkNotFound: hns.ErrUnlisted, codePolicyNotFound: hns.ErrUnlisted, // which are odd
	} {
		for _, state := range []string{listState2, listState3} {
			a, f, _ := onOthers(t)
			f.before = failing(state, code, always)
			_, err := a.EndpointIDs(t.Context())
			wantError(t, err, class, "Endpoint/Enumerate", hns.KindNetwork, "azure", code)
			require.Equal(t, 1, countOf(f.calls, state), "nothing is tried again")
		}
	}
}

// TestEndpointIDsEmpty: that nothing is there is an answer. Our network is read first.
func TestEndpointIDsEmpty(t *testing.T) {
	a, f, s := onFaulty(t)
	s.deleteEndpoint(t, "ep")
	ids, calls := enumerates(t, a, f)
	require.Empty(t, ids)
	require.Equal(t, slices.Concat(readsNetwork(s.id), callsWide), calls)
	ids, calls = enumerates(t, a, f)
	require.Empty(t, ids)
	require.Equal(t, callsWide, calls)
}

// TestNetworkInEitherCase: a GUID is the same in either case, so ours is not read
// again.
func TestNetworkInEitherCase(t *testing.T) {
	a, f, s := onOthers(t)
	s.remake(strings.ToLower(s.id), "azure")
	f.calls = nil
	for _, id := range []string{"ep", "hyper-v"} {
		getEndpoint(t, a, id)
	}
	require.Equal(t, reads(kindEndpoint, "ep", "hyper-v"), f.calls)
}

// TestEndpointIDsWhileItMoves: an endpoint that comes up meanwhile is in both
// answers, and returned once.
func TestEndpointIDsWhileItMoves(t *testing.T) {
	a, f, s := onFaulty(t)
	require.NoError(t, s.sim.SetState("ep", hnssim.Attached))
	f.before = func(call string) error {
		if call != listState3 {
			return nil
		}
		return s.sim.SetState("ep", hnssim.AttachedSharing)
	}
	ids, _ := enumerates(t, a, f)
	require.Equal(t, []string{"ep"}, ids)
}
