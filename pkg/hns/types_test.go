package hns_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/hns"
)

func TestACLSetIDs(t *testing.T) {
	for name, test := range map[string]struct {
		acl  hns.ACL
		want []string
	}{
		"everyone":         {hns.ACL{}, nil},
		"literals":         {hns.ACL{LocalAddresses: "10.0.0.1", RemoteAddresses: "10.0.0.0/8,10.0.0.1"}, nil},
		"source":           {hns.ACL{LocalAddresses: "azure-npm-1"}, []string{"azure-npm-1"}},
		"two destinations": {hns.ACL{RemoteAddresses: "azure-npm-1,azure-npm-2"}, []string{"azure-npm-1", "azure-npm-2"}},
		"both fields":      {hns.ACL{LocalAddresses: "azure-npm-2", RemoteAddresses: "azure-npm-1"}, []string{"azure-npm-2", "azure-npm-1"}},
		"otherwise spelt":  {hns.ACL{LocalAddresses: "Azure-NPM-2 ,azure-npm-1,azure-npm-2"}, []string{"azure-npm-1", "azure-npm-2"}},
		"set and literal":  {hns.ACL{LocalAddresses: "azure-npm-2", RemoteAddresses: "10.0.0.1"}, []string{"azure-npm-2"}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, test.want, test.acl.SetIDs()) })
	}
}

func TestACLOurs(t *testing.T) {
	for _, id := range []string{"azure-acl-x.web", "azure-acl-", "Azure-acl-x", "AZURE-ACL-X.WEB"} {
		require.True(t, hns.ACL{ID: id}.Ours(), id)
	}
	for _, id := range []string{"", "azure-acl", "my-azure-acl-x", " azure-acl-x"} {
		require.False(t, hns.ACL{ID: id}.Ours(), id)
	}
}

// TestACLOnTheWire: HNS takes the key Id and not ID, and an empty field is absent.
func TestACLOnTheWire(t *testing.T) {
	p := hns.NewACLPolicy(hns.ACL{
		ID: "azure-acl-x.web", Protocols: "6", Action: hns.Allow, Direction: hns.Out,
		RemoteAddresses: "azure-npm-1", RemotePorts: "80", RuleType: hns.Switch, Priority: 222,
	})
	require.Equal(t, "ACL", p.Type)
	require.JSONEq(t, `{"Id":"azure-acl-x.web","Protocols":"6","Action":"Allow","Direction":"Out",
		"RemoteAddresses":"azure-npm-1","RemotePorts":"80","RuleType":"Switch","Priority":222}`, string(p.Settings))
	require.JSONEq(t, `{"Action":"Block","Direction":"In"}`, string(hns.NewACLPolicy(hns.ACL{Action: hns.Block, Direction: hns.In}).Settings))
}

func TestACLRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 6, -1)
		a := hns.ACL{
			ID: text.Draw(t, "id"), Protocols: text.Draw(t, "protocols"),
			Action: hns.ActionType(text.Draw(t, "action")), Direction: hns.DirectionType(text.Draw(t, "direction")),
			LocalAddresses: text.Draw(t, "local"), RemoteAddresses: text.Draw(t, "remote"),
			LocalPorts: text.Draw(t, "local ports"), RemotePorts: text.Draw(t, "remote ports"),
			RuleType: hns.RuleType(text.Draw(t, "rule type")), Priority: rapid.Uint16().Draw(t, "priority"),
		}
		got, err := hns.NewACLPolicy(a).ACL()
		require.NoError(t, err)
		require.Equal(t, a, got)
	})
}

func TestEndpointSplit(t *testing.T) {
	foreign := []hns.EndpointPolicy{
		{Type: "OutBoundNAT", Settings: []byte(`{ "Id":"azure-acl-no" }`)},
		{Type: "ACL", Settings: []byte(`{"Action":"Allow",  "Direction":"In","Extra":1}`)},
		{Type: "ACL", Settings: []byte(`{"Id":"azure-acl-broken","Priority":-1}`)},
	}
	b := hns.ACL{ID: "azure-acl-b", Protocols: "256", Action: hns.Block, Direction: hns.In, Priority: 3000}
	a := hns.ACL{ID: "azure-acl-a", Protocols: "6", Action: hns.Allow, Direction: hns.In, RuleType: hns.Switch, Priority: 222}
	e := hns.Endpoint{Policies: []hns.EndpointPolicy{foreign[0], hns.NewACLPolicy(b), foreign[1], hns.NewACLPolicy(a), foreign[2]}}
	ours, others := e.Split()
	require.Empty(t, cmp.Diff([]hns.ACL{b.Canonical(), a}, ours), "in the order of HNS, canonical")
	require.Empty(t, cmp.Diff(foreign, others))

	ours, others = hns.Endpoint{}.Split()
	require.Empty(t, ours)
	require.Empty(t, others)
}

// TestPrioritiesKeepActionsApart: equal priorities with different actions are
// undefined in HNS, and the better number must win.
func TestPrioritiesKeepActionsApart(t *testing.T) {
	order := []uint16{hns.PriorityInfrastructure, hns.PriorityNode, hns.PriorityAllow, hns.PriorityBlock, hns.PriorityDefault, 65500}
	require.IsIncreasing(t, order)
}
