package explain_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/tool/explain"
)

// TestSetWords: every kind of set that a rule names has words.
func TestSetWords(t *testing.T) {
	for want, name := range map[string]ipsets.Name{
		"pods in namespace shop":                                     ipsets.Namespace("shop"),
		"pods with app=web":                                          ipsets.PodLabel("app", "web"),
		"pods with a label app":                                      ipsets.PodLabelKey("app"),
		"pods with app in (a,b)":                                     ipsets.NestedLabel("app", "b", "a"),
		"pods with app!=web in namespace shop":                       ipsets.PodSelector("shop", "app!=web"),
		"pods with no label app":                                     ipsets.PodSelector("", "!app"),
		"pods in any namespace":                                      ipsets.AllNamespaces(),
		"pods in namespaces with team=a":                             ipsets.NamespaceLabel("team", "a"),
		"pods in namespaces with team=a and no label x":              ipsets.NamespaceSelector("!x,team=a"),
		"pods whose port http is 8080/TCP":                           ipsets.NamedPort("http", "TCP", 8080),
		"pods whose port http is 8080/TCP and are within 10.0.0.0/8": ipsets.NamedPortIn("10.0.0.0/8", "http", "TCP", 8080),
		"pods and nodes within 10.0.0.0/8 or 11.0.0.0/8":             ipsets.InBlocks("10.0.0.0/8,11.0.0.0/8"),
		"nodes":                             ipsets.Nodes(""),
		"nodes with a label zone":           ipsets.Nodes("zone"),
		"addresses that several pods claim": ipsets.Doubt(),
		"nobody":                            ipsets.Empty(),
	} {
		require.Equal(t, want, explain.SetWords(name.String()), name.String())
	}
	require.Empty(t, explain.SetWords("somebody else's"))
}

// TestPeerWords: the sets of one rule are one phrase, and what has no words keeps its name.
func TestPeerWords(t *testing.T) {
	names := explain.SetNames{"azure-npm-1": "podlabel-app:web", "azure-npm-2": "ns-shop", "azure-npm-3": "somebody's"}
	for _, tc := range []struct {
		acl  hns.ACL
		want string
	}{
		{hns.ACL{Direction: hns.In, LocalAddresses: "azure-npm-2,azure-npm-1"}, "from pods with app=web in namespace shop"},
		{hns.ACL{Direction: hns.Out, RemoteAddresses: "azure-npm-1"}, "to pods with app=web"},
		{hns.ACL{Direction: hns.Out, RemoteAddresses: "azure-npm-1,azure-npm-3"}, "to podlabel-app:web and somebody's"},
		{hns.ACL{Direction: hns.Out, RemoteAddresses: "azure-npm-9"}, "to azure-npm-9"},
		{hns.ACL{Direction: hns.In}, "from everyone"},
		{hns.ACL{Direction: hns.In, RemoteAddresses: "10.0.0.0/8"}, "from 10.0.0.0/8"},
	} {
		require.Equal(t, tc.want, names.PeerWords(tc.acl))
	}
}
