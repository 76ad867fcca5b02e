package dataplane_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// rulesOf returns our rules of an endpoint, in the order of their priorities.
func (w *world) rulesOf(id string) []hns.ACL {
	for _, e := range w.sim.Endpoints() {
		if e.ID == id {
			ours, _ := hns.Endpoint{Policies: e.Policies}.Split()
			slices.SortStableFunc(ours, func(a, b hns.ACL) int { return int(a.Priority) - int(b.Priority) })
			return ours
		}
	}
	w.t.Fatalf("no endpoint %s", id)
	return nil
}

// TestClusterACLID: the Ids of the two kinds of policies tell them apart.
func TestClusterACLID(t *testing.T) {
	id := state.ClusterACLID("a.b")
	require.Equal(t, "azure-acl-cluster..a.b", id)
	name, ok := state.ClusterPolicyOfACL(id)
	require.True(t, ok)
	require.Equal(t, "a.b", name)
	_, ok = state.PolicyOfACL(id)
	require.False(t, ok)
	_, ok = state.ClusterPolicyOfACL(state.ACLID(policy.Key{Namespace: "cluster", Name: "a"}))
	require.False(t, ok)
}

// TestTiersOverBudget: if a pod has too many ACLs, its NetworkPolicies close; if that is not enough,
// only Deny rules remain, and in the end everything is blocked.
func TestTiersOverBudget(t *testing.T) {
	var denies []string
	for i := range 8 {
		denies = append(denies, fmt.Sprintf("{action: Deny, from: [{namespaces: {matchLabels: {team: t%d}}}]}, {action: Accept, from: [{namespaces: {matchLabels: {team: u%d}}}]}", i, i))
	}
	const p = `policy x/p {podSelector: {}, ingress: [{from: [{podSelector: {}}, {podSelector: {matchLabels: {a: a}}, namespaceSelector: {}}, {ipBlock: {cidr: 10.0.2.0/24}}]}]}`
	c := `cluster c {tier: Admin, priority: 1, subject: {namespaces: {}}, ingress: [{action: Pass, from: [{pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: q}}}}]}, ` + strings.Join(denies, ", ") + `]}`
	for _, test := range []struct {
		acls    int
		want    string
		objects []string
	}{
		{1000, "allow allow", nil},
		{27, "allow block", []string{"x/p"}},
		{20, "block block", []string{"c", "x/p"}},
		{5, "block block", []string{"c", "x/p"}},
	} {
		w := newWorld(t, func(c *dataplane.Config) { c.Budgets.ACLs = test.acls })
		w.do("namespace x team=xx", "namespace y team=u3", "namespace z team=zz", "node 10.0.0.100", "endpoint ep 10.0.0.1",
			"pod x/w 10.0.0.1", "pod y/p 10.0.1.1 remote", "pod z/q 10.0.2.1 app=q remote", p, c, "apply")
		require.Equal(t, test.want, w.in([]string{"10.0.1.1", "10.0.2.1"}, 80), "%d", test.acls)
		require.LessOrEqual(t, len(w.rulesOf("ep")), test.acls+1, "and the node")
		var objects []string
		for _, warning := range w.report.Warnings {
			require.Equal(t, state.ReasonOverBudget, warning.Reason)
			objects = append(objects, warning.Object)
		}
		require.Equal(t, test.objects, objects)
		w.do("trace 10.0.0.100 -> 10.0.0.1 TCP/80 ep in allow", "apply", "calls")
	}
}
