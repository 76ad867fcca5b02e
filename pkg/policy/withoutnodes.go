package policy

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// nodesUnknown is the operator of a selector that stands for a peer of nodes where nobody
// knows the nodes. The API has no such operator, so a forged one closes as well.
const nodesUnknown = "the nodes of the cluster are not known"

// WithoutNodes returns a copy of a policy for where the nodes of the cluster are not known:
// a rule with a peer of nodes matches nothing when it accepts, and denies everything of
// its direction otherwise. The mark is a part of the spec, so that every reader of the
// spec sees it.
func WithoutNodes(cnp *v1alpha2.ClusterNetworkPolicy) *v1alpha2.ClusterNetworkPolicy {
	out := cnp.DeepCopy()
	unknown := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "nodes", Operator: nodesUnknown}}}
	for i := range out.Spec.Egress {
		for j := range out.Spec.Egress[i].To {
			if p := &out.Spec.Egress[i].To[j]; p.Nodes != nil {
				p.Nodes = unknown
			}
		}
	}
	return out
}

// withoutNodes reports whether a selector of nodes is the mark of WithoutNodes.
func withoutNodes(sel *metav1.LabelSelector) bool {
	return len(sel.MatchExpressions) == 1 && sel.MatchExpressions[0].Operator == nodesUnknown
}
