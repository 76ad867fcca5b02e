package hnsfault

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
)

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
	for addr, n := range map[string]hnssim.NewEndpoint{
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
