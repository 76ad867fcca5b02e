package hcsadapter

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// enumerates returns the GUIDs that EndpointIDs returns, sorted, and the calls.
func enumerates(t inTest, a *Adapter, f *faulty) (ids, calls []string) {
	f.calls = nil
	ids, err := a.EndpointIDs(t.Context())
	require.NoError(t, err)
	slices.Sort(ids)
	return ids, f.calls
}

// inTest is a *testing.T or a *rapid.T.
type inTest interface {
	require.TestingT
	Context() context.Context
}

// The calls of an enumeration: by both filters, that with the network alone, that
// without it alone.
func callsBoth(network string) []string {
	return []string{listState2, listNarrow(2, network), listState3, listNarrow(3, network)}
}

func callsNarrow(network string) []string {
	return []string{listNarrow(2, network), listNarrow(3, network)}
}

var callsWide = []string{listState2, listState3}

// readsOurs reads the endpoint that is ours.
func readsOurs(t inTest, a *Adapter) {
	_, err := a.GetEndpoint(t.Context(), "ep")
	require.NoError(t, err)
}

// onOthers returns an adapter that has read the network. Beside ep there are an
// endpoint of Hyper-V, a remote one, and two of other networks.
func onOthers(t *testing.T) (*Adapter, *faulty, *simLibrary) {
	t.Helper()
	a, f, s := onFaulty(t)
	for _, n := range []hnssim.NewEndpoint{
		{ID: "hyper-v", State: hnssim.Attached},
		{ID: "remote", Remote: true},
		{ID: "other", Network: "nat"},
		{ID: "another", Network: "nat"},
		{ID: "created", State: hnssim.Created},
	} {
		require.NoError(t, s.sim.CreateEndpoint(n))
	}
	_, err := a.Network(t.Context())
	require.NoError(t, err)
	return a, f, s
}

// TestEndpointIDs: the endpoints of other networks are read as long as it is not
// known how to leave them out, and never after that.
func TestEndpointIDs(t *testing.T) {
	a, f, s := onOthers(t)
	everyone := []string{"another", "ep", "hyper-v", "other", "remote"}
	for range 2 {
		ids, calls := enumerates(t, a, f)
		require.Equal(t, everyone, ids)
		require.Equal(t, callsWide, calls, "until a read shows one of ours")
	}
	for _, id := range []string{"other", "remote"} {
		_, err := a.GetEndpoint(t.Context(), id)
		require.ErrorIs(t, err, hns.ErrElsewhere)
	}
	_, calls := enumerates(t, a, f)
	require.Equal(t, callsWide, calls, "those are not")

	readsOurs(t, a)
	ids, calls := enumerates(t, a, f)
	require.Equal(t, everyone, ids)
	require.Equal(t, callsBoth(s.id), calls)
	ids, calls = enumerates(t, a, f)
	require.Equal(t, []string{"ep", "hyper-v", "remote"}, ids)
	require.Equal(t, callsNarrow(s.id), calls)
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

	s.id = "00000000-0000-0000-0000-000000000002"
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

// TestEndpointIDsFails: an answer that is an error is one of the filter with the
// network only if the other one works, and a call that broke off is none.
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
	a, f, s := onOthers(t)
	readsOurs(t, a)
	f.before = failing(listNarrow(3, s.id), codeRPC, 1)
	_, err := a.EndpointIDs(t.Context())
	wantError(t, err, hns.ErrUnavailable, "Endpoint/Enumerate", hns.KindNetwork, "azure", codeRPC)
	enumerates(t, a, f) // which proves it
	f.before = failing(listNarrow(3, s.id), codeRPC, 1)
	_, err = a.EndpointIDs(t.Context())
	wantError(t, err, hns.ErrUnavailable, "Endpoint/Enumerate", hns.KindNetwork, "azure", codeRPC)
}

// TestEndpointIDsRefused: as long as HNS refuses the filter with the network, the
// other one does.
func TestEndpointIDsRefused(t *testing.T) {
	for _, code := range []uint32{codeInvalidArgument, codeFail, codeNetworkNotFound} {
		a, f, s := onOthers(t)
		readsOurs(t, a)
		f.before = failing(listNarrow(2, s.id), code, 1)
		ids, calls := enumerates(t, a, f)
		require.Len(t, ids, 5)
		require.Equal(t, []string{listState2, listNarrow(2, s.id), listState3}, calls)
		enumerates(t, a, f) // which proves it
		for _, state := range podStates {
			f.before = failing(listNarrow(state, s.id), code, 1)
			ids, calls = enumerates(t, a, f)
			require.Len(t, ids, 5)
			require.Equal(t, callsWide, calls[len(calls)-2:])
			require.Equal(t, listNarrow(state, s.id), calls[len(calls)-3])
			_, err := a.Network(t.Context())
			require.NoError(t, err)
		}
		ids, calls = enumerates(t, a, f)
		require.Len(t, ids, 3)
		require.Equal(t, callsNarrow(s.id), calls, "for a moment only")
	}
}

// TestEndpointIDsBroken: a filter that leaves out what is ours is not asked again,
// also when it was believed for a while, but of another network.
func TestEndpointIDsBroken(t *testing.T) {
	for name, omits := range map[string]func(id string) bool{
		"everything": func(string) bool { return true },
		"one":        func(id string) bool { return id == "hyper-v" },
	} {
		t.Run(name, func(t *testing.T) {
			a, f, s := onOthers(t)
			f.library = &filters{library: s, keep: func(_ endpointFilter, id string) bool { return !omits(id) }}
			readsOurs(t, a)
			ids, calls := enumerates(t, a, f)
			require.Len(t, ids, 5)
			require.Equal(t, callsBoth(s.id), calls)
			_, err := a.GetEndpoint(t.Context(), "hyper-v")
			require.NoError(t, err)
			for range 2 {
				ids, calls := enumerates(t, a, f)
				require.Len(t, ids, 5)
				require.Equal(t, callsWide, calls)
			}
			s.id = "00000000-0000-0000-0000-000000000002"
			_, err = a.Network(t.Context())
			require.NoError(t, err)
			readsOurs(t, a)
			_, calls = enumerates(t, a, f)
			require.Equal(t, callsBoth(s.id), calls)
		})
	}
}

// TestEndpointIDsIgnoresState: a filter that heeds the network alone also returns
// endpoints that no pod has, so it is never believed.
func TestEndpointIDsIgnoresState(t *testing.T) {
	a, f, s := onOthers(t)
	f.library = &filters{library: s, stateless: true}
	for range 2 {
		readsOurs(t, a)
		ids, calls := enumerates(t, a, f)
		require.NotContains(t, ids, "created")
		require.Equal(t, callsBoth(s.id), calls)
	}
}

// TestEndpointIDsOfANewNetwork: a filter for a network that is gone returns
// nothing, so nothing is asked for twice.
func TestEndpointIDsOfANewNetwork(t *testing.T) {
	a, f, s := onOthers(t)
	readsOurs(t, a)
	enumerates(t, a, f) // which proves it
	before := s.id
	s.id = "00000000-0000-0000-0000-000000000002"
	ids, calls := enumerates(t, a, f)
	require.Len(t, ids, 5)
	require.Equal(t, slices.Concat(callsNarrow(before), readsNetwork(s.id), callsWide), calls)

	readsOurs(t, a)
	enumerates(t, a, f)
	for _, id := range []string{"ep", "hyper-v", "remote"} {
		require.NoError(t, s.sim.DeleteEndpoint(id))
	}
	ids, calls = enumerates(t, a, f)
	require.Empty(t, ids)
	require.Equal(t, slices.Concat(callsNarrow(s.id), readsNetwork(s.id)), calls)
	f.before = failing("HcnEnumerateNetworks", codeFail, 1)
	_, err := a.EndpointIDs(t.Context())
	wantError(t, err, hns.ErrUnavailable, "Endpoint/Enumerate", hns.KindNetwork, "azure", codeFail)
}

// TestEndpointIDsEmpty: that nothing is there may be for another network, unless
// ours was just read.
func TestEndpointIDsEmpty(t *testing.T) {
	a, f, s := onFaulty(t)
	require.NoError(t, s.sim.DeleteEndpoint("ep"))
	ids, calls := enumerates(t, a, f)
	require.Empty(t, ids)
	require.Equal(t, slices.Concat(readsNetwork(s.id), callsWide), calls)
	ids, calls = enumerates(t, a, f)
	require.Empty(t, ids)
	require.Equal(t, slices.Concat(callsWide, readsNetwork(s.id)), calls)
}

// TestNetworkInEitherCase: a GUID is the same in either case, so ours is not read
// again.
func TestNetworkInEitherCase(t *testing.T) {
	a, f, s := onOthers(t)
	s.id = strings.ToLower(s.id)
	f.calls = nil
	for _, id := range []string{"ep", "hyper-v"} {
		_, err := a.GetEndpoint(t.Context(), id)
		require.NoError(t, err)
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

// TestOursAreNeverLost: whatever HNS makes of the filter with the network, as long
// as it makes the same of it, an endpoint of ours is among the GUIDs, and is so when
// every GUID has been read.
func TestOursAreNeverLost(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		a, f, s := onFaulty(t)
		defer a.Close()
		ours := []string{"ep"}
		omitted := map[string]bool{"ep": rapid.Bool().Draw(r, "omits ep")}
		for _, id := range []string{"a", "b", "c", "d"} {
			e := hnssim.NewEndpoint{ID: id, State: rapid.SampledFrom([]hnssim.EndpointState{hnssim.Created, hnssim.Attached, hnssim.AttachedSharing}).Draw(r, "state")}
			if rapid.Bool().Draw(r, "of another network") {
				e.Network = "nat"
			} else if e.State != hnssim.Created {
				ours = append(ours, id)
			}
			require.NoError(r, s.sim.CreateEndpoint(e))
			omitted[id] = rapid.Bool().Draw(r, "omits it")
		}
		odd := rapid.Bool().Draw(r, "odd")
		f.library = &filters{
			library: s, stateless: rapid.Bool().Draw(r, "ignores the state"),
			keep: func(_ endpointFilter, id string) bool { return !odd || !omitted[id] },
		}
		for range 4 {
			ids, calls := enumerates(r, a, f)
			require.Subset(r, ids, ours)
			require.LessOrEqual(r, countOf(calls, findNetwork), 1)
			for _, id := range rapid.Permutation(ids).Draw(r, "order") {
				if _, err := a.GetEndpoint(r.Context(), id); !errors.Is(err, hns.ErrElsewhere) {
					require.NoError(r, err)
				}
			}
		}
	})
}

// endpointFilter is what an enumeration asks for.
type endpointFilter struct {
	ID, VirtualNetwork string
	State              hnssim.EndpointState
}

// filters makes something else of filters for one network.
type filters struct {
	library
	stateless bool // heeds the network alone
	keep      func(f endpointFilter, id string) bool
}

func (f *filters) enumerate(k kind, query string) (string, error) {
	var q struct{ Filter string }
	var want endpointFilter
	if err := errors.Join(json.Unmarshal([]byte(query), &q), json.Unmarshal([]byte(q.Filter), &want)); err != nil {
		return "", err
	}
	if want.VirtualNetwork == "" {
		return f.library.enumerate(k, query)
	}
	if f.stateless {
		query = hcnQuery(filter("VirtualNetwork", want.VirtualNetwork))
	}
	text, err := f.library.enumerate(k, query)
	if err != nil || f.keep == nil {
		return text, err
	}
	var ids []string
	if err := json.Unmarshal([]byte(text), &ids); err != nil {
		return "", err
	}
	return encode(slices.DeleteFunc(ids, func(id string) bool { return !f.keep(want, id) }))
}

func TestNetworkFilter(t *testing.T) {
	require.Equal(t, `{"State":3,"VirtualNetwork":"9B3E"}`, networkFilter(3, "9B3E"))
	require.True(t, strings.HasSuffix(listNarrow(3, "9B3E"), networkFilter(3, "9B3E")))
}
