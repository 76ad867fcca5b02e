package dataplane

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
)

// TestPlanText: a plan has a line for every set and ACL and says what waits.
func TestPlanText(t *testing.T) {
	leaf := ipsets.SetValue{Name: ipsets.Namespace("x"), Text: "ns-x", Values: []string{"10.0.0.4", "10.0.0.5"}}
	nest := ipsets.SetValue{Name: ipsets.AllNamespaces(), Text: "nslabel-all-namespaces", Members: []ipsets.Name{ipsets.Namespace("x"), ipsets.Empty()}}
	old := ipsets.SetValue{Name: ipsets.PodLabel("app", "old"), Text: "podlabel-app:old"}
	allow := hns.ACL{ID: "azure-acl-x.web", Protocols: "6", Action: hns.Allow, Direction: hns.In, LocalAddresses: "a,b", LocalPorts: "80", Priority: 222}
	out := hns.ACL{ID: "azure-acl-x.out", Action: hns.Block, Direction: hns.Out, RemoteAddresses: "10.0.0.0/8", RemotePorts: "1-9", Priority: 3000}

	for _, tc := range []struct {
		name          string
		plan          Plan
		text, summary string
	}{
		{"empty", Plan{}, "", ""},
		{
			"a pod that waits is no work",
			Plan{Held: []PodKey{{Namespace: "x", Name: "db"}}},
			"held: pod x/db: endpoint not seen yet\n", "",
		},
		{
			"everything",
			Plan{
				Sets: []ipsets.Request{
					{Verb: ipsets.Add, Sets: []ipsets.SetValue{leaf}},
					{Verb: ipsets.Update, Nested: true, Sets: []ipsets.SetValue{nest}},
				},
				Pods: []PodPlan{
					{Pod: PodKey{Namespace: "x", Name: "web"}, Endpoint: "ep-7", steps: []step{{hns.Add, []hns.ACL{allow}}, {hns.Add, []hns.ACL{out}}}},
					{Pod: PodKey{Namespace: "x", Name: "db"}, Endpoint: "ep-8", steps: []step{{hns.Update, nil}}},
					{Pod: PodKey{Namespace: "x", Name: "api"}, Endpoint: "ep-9", Reread: true},
				},
				Removals: []ipsets.Request{{Verb: ipsets.Remove, Sets: []ipsets.SetValue{old}}},
				Held:     []PodKey{{Namespace: "x", Name: "late"}},
			},
			`phase 1
  set  create  ns-x  10.0.0.4 10.0.0.5
  nest update  nslabel-all-namespaces  -> empty-emptyhashset ns-x
pods
  x/web  ep-7
    acl add 222 allow in azure-acl-x.web proto=6 local=a,b lports=80
    acl add 3000 block out azure-acl-x.out remote=10.0.0.0/8 rports=1-9
  x/db  ep-8
    acl update to none of ours
  x/api  ep-9
    read it again: the outcome of the last write is not known
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
			require.Equal(t, tc.summary == "", tc.plan.Empty())
		})
	}
}

// TestPlanIsPure: making a plan changes nothing, so the next one is the same.
func TestPlanIsPure(t *testing.T) {
	m := newPortModel(t)
	m.namedPolicy("a", "block", true)
	m.pod("p", "x", 2, 8080)
	m.stage()
	m.dp.mu.Lock()
	defer m.dp.mu.Unlock()
	first := m.dp.core.plan(m.now)
	require.NotEmpty(t, first.Sets)
	require.NotEmpty(t, first.Pods)
	require.Equal(t, first.String(), m.dp.core.plan(m.now).String())
}
