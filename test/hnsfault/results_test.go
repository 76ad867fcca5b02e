package hnsfault

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
)

// TestResultsAreCopies spoils what the calls of hns.Client return, and checks that the next calls
// return what is there.
func TestResultsAreCopies(t *testing.T) {
	s := newTown(t)
	rules := []hns.ACL{allow(nil)}
	require.NoError(t, s.ReplacePolicies(t.Context(), "ep-1", []hns.EndpointPolicy{hns.NewACLPolicy(rules[0])}))
	want := s.Dump()
	network, err := s.Network(t.Context())
	require.NoError(t, err)
	for _, p := range network.Sets {
		clear(p.Values)
	}
	ids, err := s.EndpointIDs(t.Context())
	require.NoError(t, err)
	require.Contains(t, ids, "ep-1")
	clear(ids)
	e, err := s.GetEndpoint(t.Context(), "ep-1")
	require.NoError(t, err)
	addrs := append(e.Addrs[:0:0], e.Addrs...)
	clear(e.Policies[0].Settings)
	clear(e.Addrs)

	require.Equal(t, want, s.Dump())
	e, err = s.GetEndpoint(t.Context(), "ep-1")
	require.NoError(t, err)
	require.Equal(t, addrs, e.Addrs)
	ours, _ := e.Split()
	require.Equal(t, rules, ours)
	ids, err = s.EndpointIDs(t.Context())
	require.NoError(t, err)
	require.Contains(t, ids, "ep-1")
}

// TestHeldAndGone: an open handle does not keep an endpoint, nor hide that it went.
func TestHeldAndGone(t *testing.T) {
	for _, before := range []bool{true, false} {
		s := newTown(t)
		if before {
			require.NoError(t, s.DeleteEndpoint("ep-1"))
		}
		release := s.Hold(t.Context(), "ep-1")
		if !before {
			_, err := s.GetEndpoint(t.Context(), "ep-1")
			require.NoError(t, err)
			require.NoError(t, s.DeleteEndpoint("ep-1"))
		}
		_, err := s.GetEndpoint(t.Context(), "ep-1")
		require.ErrorIs(t, err, hns.ErrNotFound)
		require.True(t, hns.EndpointGone(err))
		require.ErrorIs(t, s.AddACLs(t.Context(), "ep-1", []hns.ACL{allow(nil)}), hns.ErrNotFound)
		release()
		_, err = s.GetEndpoint(t.Context(), "ep-1")
		require.True(t, hns.EndpointGone(err))
	}
}
