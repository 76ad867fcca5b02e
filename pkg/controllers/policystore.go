package controllers

import (
	"cmp"
	"fmt"
	"reflect"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/winnpm/winnpm/pkg/policy"
)

// keptPolicy is a policy without what nobody reads, and closed when it is over a
// budget. The dataplane shares the Spec.
type keptPolicy struct {
	object *networkingv1.NetworkPolicy
	size   policy.Size // of its text; zero when it is over its own budget, as nothing is kept of it then
	// shut: the policies of its namespace are over their budget, and its text was
	// dropped.
	shut bool
}

func (p *keptPolicy) name() cache.ObjectName {
	return cache.ObjectName{Namespace: p.object.Namespace, Name: p.object.Name}
}

// compare orders the policies of a namespace by what they cost.
func (p *keptPolicy) compare(o *keptPolicy) int {
	return cmp.Or(p.size.Compare(o.size), cmp.Compare(p.object.Name, o.object.Name))
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
			return &keptPolicy{size: size, object: &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{
				Namespace: object.Namespace, Name: object.Name, UID: object.UID,
				ResourceVersion: object.ResourceVersion, Generation: object.Generation,
				CreationTimestamp: object.CreationTimestamp, DeletionTimestamp: object.DeletionTimestamp,
			}, Spec: spec}}, true
		},
		nameOf: (*keptPolicy).name,
		same: func(a, b *keptPolicy) bool {
			// After etcd was restored, one version can stand for two specs.
			return a.shut == b.shut && a.object.ResourceVersion != "" &&
				a.object.ResourceVersion == b.object.ResourceVersion && a.object.UID == b.object.UID &&
				reflect.DeepEqual(a.object.Spec, b.object.Spec)
		},
	}
}

// policyStore is the store of policies. The policies of one namespace share a budget: the
// largest are closed until the others fit. Which ones these are follows from what is in
// the cluster alone. The text of a closed policy is not kept, so when there is room again,
// everything is listed once more.
type policyStore struct {
	*store[*keptPolicy]
	budgets policy.Budgets
	again   func() // asks for another list; it does not wait

	shares *shares // of what is in the store; the reflector's goroutine's
}

func newPolicyStore(b policy.Budgets, enqueue func(Key)) *policyStore {
	return &policyStore{store: newStore(keptPolicies(b), enqueue), budgets: b, again: func() {}, shares: newShares(b)}
}

// Add implements cache.ReflectorStore.
func (s *policyStore) Add(obj any) error {
	v, err := s.value(obj)
	if err != nil {
		return err
	}
	closing, opens := s.shares.set(v)
	for _, c := range closing {
		is := c.shutting(s.budgets)
		if s.shares.swap(is); c == v {
			v = is
		} else if err := s.store.Add(is); err != nil {
			return err
		}
	}
	if opens {
		s.again()
	}
	if err := s.store.Add(v); err != nil {
		return err
	}
	if is, ok := s.get(v.name()); ok { // maybe an older one, of which one is enough
		s.shares.swap(is)
	}
	return nil
}

// Update implements cache.ReflectorStore.
func (s *policyStore) Update(obj any) error { return s.Add(obj) }

// Delete implements cache.ReflectorStore.
func (s *policyStore) Delete(obj any) error {
	name, err := cache.ObjectToName(obj)
	if err != nil {
		return err
	}
	if s.shares.remove(name) {
		s.again()
	}
	return s.store.Delete(obj)
}

// Replace implements cache.ReflectorStore: the list is all there is.
func (s *policyStore) Replace(list []any, version string) error {
	all := newShares(s.budgets)
	for i := range list {
		v, err := s.value(list[i])
		if err != nil {
			return err
		}
		list[i] = v
		all.shut(v)
	}
	if err := s.store.Replace(list, version); err != nil {
		return err
	}
	s.shares = newShares(s.budgets)
	for _, v := range s.all() {
		s.shares.set(v) // of which none is to be shut any more
	}
	if all.idle() {
		s.again()
	}
	return nil
}

// Transformer implements cache.TransformingStore. What it returns is for one list,
// whose objects nobody else has yet: the texts that its namespaces have no room for
// are dropped as it comes.
func (s *policyStore) Transformer() cache.TransformFunc {
	listed := newShares(s.budgets)
	return func(obj any) (any, error) {
		v, err := s.value(obj)
		if err == nil {
			listed.shut(v)
		}
		return v, err
	}
}
