package controllers

import (
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/winnpm/winnpm/pkg/policy"
)

// keptPolicy is a policy without what nobody reads, and closed when it is over a
// budget. The dataplane shares the Spec.
type keptPolicy struct {
	object *networkingv1.NetworkPolicy
	size   int // what it adds to its namespace; 0 if it is over the limit of one object, as nothing is kept of it then
	// shut: the policies of its namespace are over their limit, and its text was dropped.
	shut bool
}

func (p *keptPolicy) name() cache.ObjectName {
	return cache.ObjectName{Namespace: p.object.Namespace, Name: p.object.Name}
}

// shutting returns the policy without its text.
func (p *keptPolicy) shutting(b policy.Budgets) *keptPolicy {
	object := *p.object
	object.Spec = policy.Close(&object.Spec, b.ExcessOfNamespace())
	return &keptPolicy{object: &object, size: p.size, shut: true}
}

// keptPolicies says what is kept of policies, each by itself.
func keptPolicies(b policy.Budgets) kept[*keptPolicy] {
	return kept[*keptPolicy]{
		kind: KindPolicy,
		of: func(obj any) (*keptPolicy, bool) {
			var object *networkingv1.NetworkPolicy
			var spec networkingv1.NetworkPolicySpec
			var size policy.Size
			var err error
			switch o := obj.(type) {
			case *keptPolicy:
				return o, true
			case *lightPolicy:
				object = &o.NetworkPolicy
				spec, size, err = o.decoded(b)
			case *networkingv1.NetworkPolicy:
				object, spec, size = o, o.Spec, policy.SizeOf(&o.Spec)
			default:
				return nil, false
			}
			excess := b.Excess(size)
			if err != nil {
				excess = fmt.Sprintf("its text cannot be read (%v)", err) // without its isolation its pods would be open
			}
			if excess != "" {
				spec, size = policy.Close(&spec, excess), policy.Size{}
			}
			return &keptPolicy{size: size.Total(), object: &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{
				Namespace: object.Namespace, Name: object.Name, UID: object.UID,
				ResourceVersion: object.ResourceVersion, Generation: object.Generation,
				CreationTimestamp: object.CreationTimestamp, DeletionTimestamp: object.DeletionTimestamp,
			}, Spec: spec}}, true
		},
		nameOf: (*keptPolicy).name,
		same: func(a, b *keptPolicy) bool {
			// After a restore of etcd, two specs can have the same resource version.
			return a.shut == b.shut && a.size == b.size && a.object.ResourceVersion != "" &&
				a.object.ResourceVersion == b.object.ResourceVersion && a.object.UID == b.object.UID &&
				equality.Semantic.DeepEqual(a.object.Spec, b.object.Spec)
		},
	}
}

// policyStore is the store of policies.
type policyStore = budgetStore[keptPolicy]

func newPolicyStore(b policy.Budgets, enqueue func(Key)) *policyStore {
	return newBudgetStore(keptPolicies(b), sharing[keptPolicy]{
		limit:    b.NamespaceBytes,
		size:     func(p *keptPolicy) int { return p.size },
		shut:     func(p *keptPolicy) bool { return p.shut },
		shutting: func(p *keptPolicy) *keptPolicy { return p.shutting(b) },
	}, enqueue)
}
