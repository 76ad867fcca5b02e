package dataplane

import "sigs.k8s.io/network-policy-api/apis/v1alpha2"

// ClusterPolicyDump is one ClusterNetworkPolicy.
type ClusterPolicyDump struct {
	Name     string   `json:"name"`
	Selected []string `json:"selected"` // local pods
	Problems []string `json:"problems,omitempty"`
	// Spec is the object's; whoever reads it must not change it.
	Spec *v1alpha2.ClusterNetworkPolicySpec `json:"spec,omitempty"`
}
