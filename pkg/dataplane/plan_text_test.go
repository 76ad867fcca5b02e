package dataplane

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
)

// TestPlanText: a plan has a line for every set and ACL that is written and says who waits.
func TestPlanText(t *testing.T) {
	leaf := hns.SetPolicy{ID: "1", Name: "ns-x", Type: hns.IPSet, Values: []string{"10.0.0.4", "10.0.0.5"}}
	nest := hns.SetPolicy{ID: "2", Name: "nslabel-all-namespaces", Type: hns.NestedIPSet, Values: []string{"1", "0"}}
	old := hns.SetPolicy{ID: "3", Name: "podlabel-app:old", Type: hns.IPSet}
	allow := hns.ACL{ID: "azure-acl-x.web", Protocols: "6", Action: hns.Allow, Direction: hns.In, LocalAddresses: "a,b", LocalPorts: "80", Priority: 222}
	out := hns.ACL{ID: "azure-acl-x.out", Action: hns.Block, Direction: hns.Out, RemoteAddresses: "10.0.0.0/8,1", RemotePorts: "1-9", Priority: 3000}
	theirs := hns.ACL{ID: "theirs", Action: hns.Allow, Direction: hns.Out, Priority: 10}

	for _, tc := range []struct {
		name          string
		plan          Plan
		text, summary string
	}{
		{"empty", Plan{}, "", ""},
		{"reads alone", Plan{Requests: []hns.Request{{Op: hns.OpNetworkGet}, {Op: hns.OpEndpointGet, Endpoint: "ep-7"}}}, "", ""},
		{
			"a pod that waits is no work",
			Plan{Held: []string{"x/db"}},
			"held: pod x/db: endpoint not seen yet\n", "",
		},
		{
			"everything",
			Plan{
				Requests: []hns.Request{
					{Op: hns.OpSets(hns.Add), Sets: []hns.SetPolicy{leaf}},
					{Op: hns.OpSets(hns.Update), Sets: []hns.SetPolicy{nest}},
					{Op: hns.OpEndpointGet, Endpoint: "ep-7"},
					{Op: hns.OpACLAdd, Endpoint: "ep-7", ACLs: []hns.ACL{allow}},
					{Op: hns.OpACLAdd, Endpoint: "ep-7", ACLs: []hns.ACL{out}},
					{Op: hns.OpACLUpdate, Endpoint: "ep-8", Policies: []hns.EndpointPolicy{hns.NewACLPolicy(theirs)}},
					{Op: hns.OpACLUpdate, Endpoint: "ep-9", Policies: []hns.EndpointPolicy{hns.NewACLPolicy(theirs), hns.NewACLPolicy(allow)}},
					{Op: hns.OpSets(hns.Remove), Sets: []hns.SetPolicy{old}},
				},
				Held: []string{"x/late"},
				sets: map[string]string{"0": "empty-emptyhashset", "1": "ns-x"},
				pods: map[string]string{"ep-7": "x/web", "ep-8": "x/db", "ep-9": "x/api"},
			},
			`phase 1
  set  create  ns-x  10.0.0.4 10.0.0.5
  nest update  nslabel-all-namespaces  -> empty-emptyhashset ns-x
pods
  x/web  ep-7
    acl add 222 allow in azure-acl-x.web proto=6 local=a,b lports=80
    acl add 3000 block out azure-acl-x.out remote=10.0.0.0/8,ns-x rports=1-9
  x/db  ep-8
    acl update to none of ours
  x/api  ep-9
    acl update 222 allow in azure-acl-x.web proto=6 local=a,b lports=80
phase 2
  set  delete  podlabel-app:old
held: pod x/late: endpoint not seen yet
`,
			"sets +1 ~1 -1, endpoints 3",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Empty(t, cmp.Diff(tc.text, tc.plan.String()))
			require.Equal(t, tc.summary, tc.plan.Summary())
		})
	}
}
