package controllers

import (
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/winnpm/winnpm/pkg/policy"
)

// policyItems decodes NetworkPolicies.
var policyItems = itemKind{
	resource: "networkpolicies", list: "NetworkPolicyList",
	item: func(content []byte) (runtime.Object, error) {
		np := &networkingv1.NetworkPolicy{}
		return np, np.Unmarshal(content)
	},
}

// keptPolicy is a policy without the fields that the agent does not use. A policy over a budget is
// closed. The dataplane shares the Spec.
type keptPolicy struct {
	object *networkingv1.NetworkPolicy
	size   int // its part of the namespace's limit; 0 if it is over the limit of one object, because its text was dropped
	// shut is set if the policies of its namespace are over their limit, and its text was dropped.
	shut bool
}

// keptPolicies returns how the store keeps policies.
func keptPolicies(b policy.Budgets) kept[*networkingv1.NetworkPolicy, keptPolicy] {
	return kept[*networkingv1.NetworkPolicy, keptPolicy]{
		kind: KindPolicy,
		of: func(np *networkingv1.NetworkPolicy) *keptPolicy {
			spec, size := np.Spec, policy.SizeOf(&np.Spec)
			if excess := b.Excess(size); excess != "" {
				spec, size = policy.Close(&spec, excess), policy.Size{}
			}
			return &keptPolicy{size: size.Total(), object: &networkingv1.NetworkPolicy{ObjectMeta: keptMeta(&np.ObjectMeta), Spec: spec}}
		},
		same: func(a, b *keptPolicy) bool {
			// After a restore of etcd, two specs can have the same resource version.
			return a.shut == b.shut && a.size == b.size && a.object.ResourceVersion != "" &&
				a.object.ResourceVersion == b.object.ResourceVersion && a.object.UID == b.object.UID &&
				equality.Semantic.DeepEqual(a.object.Spec, b.object.Spec)
		},
		limit: b.NamespaceBytes,
		size:  func(p *keptPolicy) int { return p.size },
		shut: func(p *keptPolicy) *keptPolicy {
			if p.shut {
				return p
			}
			object := *p.object
			object.Spec = policy.Close(&object.Spec, b.ExcessOfNamespace())
			return &keptPolicy{object: &object, size: p.size, shut: true}
		},
	}
}

// keptMeta returns the fields of metadata that the agent uses.
func keptMeta(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, Generation: m.Generation,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp,
	}
}
