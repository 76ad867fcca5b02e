package hnsfault

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// TestNoAliasing spoils everything that goes in and comes out.
func TestNoAliasing(t *testing.T) {
	s := newTown(t)
	values := []string{"10.0.0.1"}
	require.NoError(t, s.PutSet(leaf("web", values...)))
	foreign := []hns.EndpointPolicy{{Type: "OutBoundNAT", Settings: []byte(`{"a":1}`)}}
	addrs := []netip.Addr{netip.MustParseAddr("10.0.0.8")}
	require.NoError(t, s.SetPolicies("ep-1", foreign))
	require.NoError(t, s.CreateEndpoint(hnssim.NewEndpoint{ID: "ep-2", Addrs: addrs, Policies: foreign}))
	acls := []hns.ACL{allow(nil)}
	require.NoError(t, s.AddACLs(t.Context(), "ep-2", acls))
	require.NoError(t, s.ReplacePolicies(t.Context(), "ep-2", append(foreign, hns.NewACLPolicy(acls[0]))))
	sets := []hns.SetPolicy{leaf("new", "10.0.0.1")}
	require.NoError(t, s.ModifySets(t.Context(), hns.Add, sets))
	want, calls := s.Dump(), s.Calls()
	require.Contains(t, want, "set new IPSET 10.0.0.1\n")

	clear(values)
	clear(foreign[0].Settings)
	clear(addrs)
	clear(acls)
	clear(sets[0].Values)
	clear(s.Sets()[0].Values)
	view, _ := s.Endpoint("ep-2")
	for _, e := range append(s.Endpoints(), view) {
		clear(e.Addrs)
		for _, p := range e.Policies {
			clear(p.Settings)
		}
	}
	p := hnssim.Packet{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.8"), Protocol: 6, DstPort: 80}
	v, err := s.Trace("ep-2", hns.In, p)
	require.NoError(t, err)
	clear(v.Matched)
	counts := s.Counts()
	clear(counts)

	require.Equal(t, want, s.Dump())
	require.Empty(t, cmp.Diff(calls, s.Calls()))
	require.Equal(t, map[string]int{"ACL/Add": 1, "ACL/Update": 1, "SetPolicy/Add": 1}, s.Counts())
	again, err := s.Trace("ep-2", hns.In, p)
	require.NoError(t, err)
	require.Equal(t, []hns.ACL{allow(nil)}, again.Matched)
}

func TestRestart(t *testing.T) {
	s := newTown(t)
	theirs := hns.EndpointPolicy{Type: "ACL", Settings: []byte(`{"Action":"Allow","Direction":"In","Priority":65500}`)}
	naming := allow(func(a *hns.ACL) { a.ID = "of-another-program" })
	e, _ := s.Endpoint("ep-1")
	require.NoError(t, s.SetPolicies("ep-1", append(e.Policies, theirs, hns.NewACLPolicy(naming))))
	s.Restart()
	require.Empty(t, s.Sets())
	e, _ = s.Endpoint("ep-1")
	require.Equal(t, []hns.EndpointPolicy{{Type: "OutBoundNAT", Settings: []byte(`{"Exceptions":["10.0.0.0/8"]}`)}, theirs}, e.Policies)
	require.NoError(t, s.ModifySets(t.Context(), hns.Add, []hns.SetPolicy{leaf("web")}), "its name is free again")
	require.NoError(t, s.ModifySets(t.Context(), hns.Remove, []hns.SetPolicy{leaf("web")}), "nothing names it any more")
}

func TestRejectionsCanBeLifted(t *testing.T) {
	s := newTown(t)
	s.RejectSet(func(hns.SetPolicy) bool { return true })
	s.RejectACL(func(hns.ACL) bool { return true })
	require.ErrorIs(t, s.ModifySets(t.Context(), hns.Update, []hns.SetPolicy{leaf("web")}), hns.ErrInvalid)
	require.ErrorIs(t, s.AddACLs(t.Context(), "ep-1", []hns.ACL{allow(nil)}), hns.ErrInvalid)
	require.NoError(t, s.ModifySets(t.Context(), hns.Remove, []hns.SetPolicy{leaf("lonely")}), "what goes is not refused")
	s.RejectSet(nil)
	s.RejectACL(nil)
	require.NoError(t, s.ModifySets(t.Context(), hns.Update, []hns.SetPolicy{leaf("web")}))
	require.NoError(t, s.AddACLs(t.Context(), "ep-1", []hns.ACL{allow(nil)}))
}
