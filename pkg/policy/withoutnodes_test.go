package policy

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

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
