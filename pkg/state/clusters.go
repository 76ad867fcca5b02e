package state

import "sigs.k8s.io/network-policy-api/apis/v1alpha2"

// ClusterPolicy is one ClusterNetworkPolicy.
type ClusterPolicy struct {
	Name     string   `json:"name"`
	Selected []string `json:"selected"` // local pods
	Problems []string `json:"problems,omitempty"`
	// Spec is the object's; whoever reads it must not change it.
	Spec *v1alpha2.ClusterNetworkPolicySpec `json:"spec,omitempty"`
}

// TierRule is what a rule of an endpoint that a ClusterNetworkPolicy selects came
// from.
type TierRule struct {
	TierSource
	// Passed are the rules that passed the connection on, in order.
	Passed []TierSource `json:"passed,omitempty"`
}

// TierSource is a rule of a policy. Of the block that NetworkPolicies share, and of our
// rules for the node and for everybody, it has no policy.
type TierSource struct {
	Tier   string `json:"tier,omitempty"`   // Admin, NetworkPolicy or Baseline
	Policy string `json:"policy,omitempty"` // namespace/name, or the name of a ClusterNetworkPolicy
	Rule   int    `json:"rule"`             // its place in its direction
	Name   string `json:"name,omitempty"`
}
