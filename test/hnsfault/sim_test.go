package hnsfault

import (
	"context"
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
	require.NoError(t, s.CreateEndpoint(hnssim.SimEndpoint{ID: "ep-2", Addrs: addrs, Policies: foreign}))
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

// town is a small node: two leaves, a list of the first, a leaf that only a
// rule names, and endpoints of every kind.
const town = `network azure
set db IPSET 10.0.0.5
set front IPSET
set group NESTEDIPSET web
set lonely IPSET 10.9.0.0/16
set web IPSET 10.0.0.4
endpoint ep-1 addrs=10.0.0.4
  acl 222 allow in azure-acl-x.web proto=6 local=front lports=80
  policy OutBoundNAT {"Exceptions":["10.0.0.0/8"]}
endpoint ep-away addrs=10.7.0.4 remote=true network=azure state=AttachedSharing
endpoint ep-elsewhere addrs=10.8.0.4 remote=false network=other state=AttachedSharing
endpoint ep-new addrs=10.0.0.6 remote=false network=azure state=Created
`

// newTown returns the town.
func newTown(t testing.TB) *Sim {
	t.Helper()
	s := New(Options{})
	for _, p := range []hns.SetPolicy{leaf("db", "10.0.0.5"), leaf("front"), leaf("lonely", "10.9.0.0/16"), leaf("web", "10.0.0.4"), list("group", "web")} {
		require.NoError(t, s.PutSet(p))
	}
	web := allow(func(a *hns.ACL) { a.ID, a.LocalAddresses = "azure-acl-x.web", DerivedID("front") })
	nat := hns.EndpointPolicy{Type: "OutBoundNAT", Settings: []byte(`{"Exceptions":["10.0.0.0/8"]}`)}
	for addr, n := range map[string]hnssim.SimEndpoint{
		"10.0.0.4": {ID: "ep-1", Policies: []hns.EndpointPolicy{hns.NewACLPolicy(web), nat}},
		"10.7.0.4": {ID: "ep-away", Remote: true},
		"10.8.0.4": {ID: "ep-elsewhere", Network: "other"},
		"10.0.0.6": {ID: "ep-new", State: hnssim.Created},
	} {
		n.Addrs = []netip.Addr{netip.MustParseAddr(addr)}
		require.NoError(t, s.CreateEndpoint(n))
	}
	require.Equal(t, town, s.Dump())
	return s
}

func leaf(name string, values ...string) hns.SetPolicy {
	return hns.SetPolicy{ID: DerivedID(name), Name: name, Type: hns.IPSet, Values: values}
}

func list(name string, members ...string) hns.SetPolicy {
	p := hns.SetPolicy{ID: DerivedID(name), Name: name, Type: hns.NestedIPSet}
	for _, m := range members {
		p.Values = append(p.Values, DerivedID(m))
	}
	return p
}

// allow returns a valid rule after change was applied to it.
func allow(change func(*hns.ACL)) hns.ACL {
	a := hns.ACL{
		ID: "azure-acl-x.test", Protocols: "6", Action: hns.Allow, Direction: hns.In,
		LocalAddresses: DerivedID("web"), LocalPorts: "80", RuleType: hns.Switch, Priority: 222,
	}
	if change != nil {
		change(&a)
	}
	return a
}

// TestDLLCalls: what a call of the client costs at the DLLs.
func TestDLLCalls(t *testing.T) {
	read := func(ctx context.Context, t *testing.T, s *Sim) {
		_, err := s.GetEndpoint(ctx, "ep-1")
		require.NoError(t, err)
	}
	checkedWrite := func(ctx context.Context, t *testing.T, s *Sim) {
		read(ctx, t, s)
		require.NoError(t, s.AddACLs(ctx, "ep-1", []hns.ACL{allow(nil)}))
		read(ctx, t, s)
	}
	hold := func(do func(context.Context, *testing.T, *Sim)) func(context.Context, *testing.T, *Sim) {
		return func(ctx context.Context, t *testing.T, s *Sim) {
			release := s.Hold(ctx, "ep-1")
			do(ctx, t, s)
			release()
		}
	}
	for name, test := range map[string]struct {
		do   func(context.Context, *testing.T, *Sim)
		want int
	}{
		"a checked write":        {hold(checkedWrite), 5},
		"and without a handle":   {checkedWrite, 9},
		"a read":                 {read, 3},
		"a read with a handle":   {hold(read), 3},
		"a handle of nobody":     {hold(func(context.Context, *testing.T, *Sim) {}), 0},
		"two held, one by one":   {func(ctx context.Context, t *testing.T, s *Sim) { hold(read)(ctx, t, s); hold(read)(ctx, t, s) }, 6},
		"another than that held": {hold(func(ctx context.Context, _ *testing.T, s *Sim) { _, _ = s.GetEndpoint(ctx, "ep-new") }), 3},
		"an enumeration": {func(ctx context.Context, t *testing.T, s *Sim) {
			_, err := s.EndpointIDs(ctx)
			require.NoError(t, err)
		}, 2},
		"the network": {func(ctx context.Context, t *testing.T, s *Sim) {
			_, err := s.Network(ctx)
			require.NoError(t, err)
		}, 4},
		"sets": {func(ctx context.Context, t *testing.T, s *Sim) { require.NoError(t, update(ctx, s)) }, 3},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTown(t)
			test.do(t.Context(), t, s)
			require.Equal(t, test.want, s.DLLCalls())
			s.ResetCalls()
			require.Zero(t, s.DLLCalls())
		})
	}
}
