package policy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// TestCloseCluster: what was not decoded whole denies where it did more than accept,
// accepts nothing, and says so.
func TestCloseCluster(t *testing.T) {
	type (
		spec    = v1alpha2.ClusterNetworkPolicySpec
		ingress = v1alpha2.ClusterNetworkPolicyIngressRule
		egress  = v1alpha2.ClusterNetworkPolicyEgressRule
	)
	some := v1alpha2.ClusterNetworkPolicySubject{Namespaces: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}
	for name, tc := range map[string]struct {
		in       spec
		want     []Direction // that deny everything
		everyPod bool
	}{
		"one direction denies": {in: spec{Subject: some, Ingress: []ingress{{Action: "Accept"}, {Action: "Deny"}}, Egress: []egress{{Action: "Accept"}}}, want: []Direction{Ingress}},
		"a Pass denies":        {in: spec{Subject: some, Egress: []egress{{Action: "Accept"}, {Action: "Pass"}}}, want: []Direction{Egress}},
		"both directions":      {in: spec{Subject: some, Ingress: []ingress{{Action: "?"}}, Egress: []egress{{Action: "Deny"}}}, want: []Direction{Ingress, Egress}},
		"it only accepts":      {in: spec{Subject: some, Egress: []egress{{Action: "Accept"}}}},
		"no rules":             {in: spec{Subject: some}},
		"no subject":           {in: spec{Ingress: []ingress{{Action: "Deny"}}}, want: []Direction{Ingress}, everyPod: true},
	} {
		t.Run(name, func(t *testing.T) {
			tc.in.Tier, tc.in.Priority = v1alpha2.BaselineTier, 7
			closed := CloseCluster(&tc.in, "it is large")
			out := CompileCluster(&v1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: closed})
			require.Equal(t, Baseline, out.Tier)
			require.Equal(t, int32(7), out.Priority)
			require.Equal(t, tc.everyPod, out.Namespaces.Matches(nil))
			var got []Direction
			for _, r := range out.Rules {
				require.Equal(t, Rule{Direction: r.Direction, Action: Deny, Peers: []Peer{{}}}, r)
				got = append(got, r.Direction)
			}
			require.Equal(t, tc.want, got)
			require.Equal(t, map[Reason]int{ReasonOverBudget: 1}, out.Found)
			require.True(t, strings.HasPrefix(out.Problems[0].Message, "it is large; "), out.Problems[0].Message)
			require.Equal(t, closed, CloseCluster(&closed, "it is large"), "closing it again changes nothing")
		})
	}
}

// TestWithoutNodes: where the nodes are not known, what names them accepts nothing or denies
// everything of its direction, says so, and leaves the other rules and the object alone.
func TestWithoutNodes(t *testing.T) {
	type (
		egress = v1alpha2.ClusterNetworkPolicyEgressRule
		peer   = v1alpha2.ClusterNetworkPolicyEgressPeer
	)
	nodes := peer{Nodes: &metav1.LabelSelector{MatchLabels: map[string]string{"os": "linux"}}}
	network := peer{Networks: []v1alpha2.CIDR{"10.0.0.0/8"}}
	in := &v1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1alpha2.ClusterNetworkPolicySpec{
		Tier: v1alpha2.AdminTier, Subject: v1alpha2.ClusterNetworkPolicySubject{Namespaces: &metav1.LabelSelector{}},
		Egress: []egress{
			{Action: "Accept", To: []peer{network, nodes}},
			{Action: "Accept", To: []peer{network}},
			{Action: "Deny", To: []peer{nodes}},
			{Action: "Pass", To: []peer{nodes, network}},
		},
	}}
	before := in.DeepCopy()
	out := CompileCluster(WithoutNodes(in))
	require.Equal(t, before, in)
	want := CompileCluster(in).Rules
	want[0].Peers = nil
	want[2].Peers = []Peer{{}}
	want[3].Action, want[3].Peers = Deny, []Peer{{}}
	require.Equal(t, want, out.Rules)
	require.Equal(t, map[Reason]int{ReasonNodesUnknown: 3}, out.Found)
	require.Equal(t, Problem{
		Reason: ReasonNodesUnknown, Field: "spec.egress[2].to[0].nodes",
		Message: "the nodes of the cluster are not known here yet, the agent's log and /readyz say why; until they are, the rule denies everything",
	}, out.Problems[1])
	require.Empty(t, out.Sets)
}
