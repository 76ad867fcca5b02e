package controllers

import (
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/winnpm/winnpm/pkg/policy"
)

// lightPolicy is a NetworkPolicy whose spec is not decoded before it is known to be
// within its budget: decoded it is up to thirty times as large as what was sent.
type lightPolicy struct {
	networkingv1.NetworkPolicy
	// spec is a NetworkPolicy with nothing but its spec, as protobuf; nil: what is
	// decoded is all.
	spec []byte
}

// addLightPolicies registers policies for a client that only reads them.
func addLightPolicies(scheme *runtime.Scheme) error {
	scheme.AddKnownTypeWithName(networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"), &lightPolicy{})
	metav1.AddToGroupVersion(scheme, networkingv1.SchemeGroupVersion)
	return nil
}

// Fields of NetworkPolicy and its spec, by number, which never changes.
var (
	policyMeta = wireFields{1: {
		1: nil /* name */, 3: nil /* namespace */, 5: nil /* uid */, 6: nil /* resourceVersion */, 7: nil, /* generation */
		8: nil /* creationTimestamp */, 9: nil, /* deletionTimestamp */
		12: nil, // annotations: the end of a streamed first list is one
	}}
	policySpec  = wireFields{2: nil}
	policyPods  = wireFields{2: {1: nil}} // podSelector
	policyTypes = wireFields{2: {4: nil}}
)

// specHead is more than a spec has in bytes before its content.
const specHead = 16

// typesBytes is more than the two directions that there are take.
const typesBytes = 64

// Unmarshal decodes from protobuf all but the spec.
func (p *lightPolicy) Unmarshal(data []byte) error {
	light, err := onlyFields(nil, data, policyMeta)
	if err == nil {
		err = p.NetworkPolicy.Unmarshal(light)
	}
	if err == nil {
		p.spec, err = onlyFields([]byte{}, data, policySpec)
	}
	if err != nil {
		return fmt.Errorf("decode a policy: %w", err)
	}
	return nil
}

// decoded returns the spec with its size. Of one that is larger than the budget of
// one policy it has no rules, and those of podSelector and policyTypes that are of
// ordinary size; where these are missing it is about both directions.
func (p *lightPolicy) decoded(b policy.Budgets) (networkingv1.NetworkPolicySpec, policy.Size, error) {
	if p.spec == nil {
		return p.Spec, policy.SizeOf(&p.Spec), nil
	}
	var np networkingv1.NetworkPolicy
	if len(p.spec) <= b.Bytes+specHead {
		if err := np.Unmarshal(p.spec); err != nil {
			return closedWhole(), policy.Size{}, fmt.Errorf("decode a policy: %w", err)
		}
		return np.Spec, policy.SizeOf(&np.Spec), nil
	}
	size := policy.Size{Bytes: len(p.spec)}
	for _, part := range []struct {
		fields wireFields
		most   int
	}{{policyPods, policy.SubjectBytes}, {policyTypes, typesBytes}} {
		content, err := onlyFields(nil, p.spec, part.fields)
		if err == nil && len(content) <= part.most+specHead {
			err = np.Unmarshal(content) // adds to what is there
		}
		if err != nil {
			return closedWhole(), size, fmt.Errorf("decode a policy: %w", err)
		}
	}
	if len(np.Spec.PolicyTypes) == 0 {
		np.Spec.PolicyTypes = closedWhole().PolicyTypes
	}
	return np.Spec, size, nil
}

// closedWhole isolates every pod of the namespace in both directions. The text of the
// policy breaks off, so less would be a guess that opens.
func closedWhole() networkingv1.NetworkPolicySpec {
	return networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}}
}

// policyItems reads policies.
var policyItems = itemKind{
	resource: "networkpolicies", list: "NetworkPolicyList",
	whole: func() runtime.Object { return &networkingv1.NetworkPolicyList{} },
	item: func(content []byte) (runtime.Object, error) {
		np := &lightPolicy{}
		return np, np.Unmarshal(content)
	},
	add: func(list, item runtime.Object) error {
		into, ok := list.(*networkingv1.NetworkPolicyList)
		if !ok {
			return fmt.Errorf("unexpected %T in a list of type %T", item, list)
		}
		switch o := item.(type) {
		case *lightPolicy:
			if err := o.NetworkPolicy.Unmarshal(o.spec); err != nil {
				return err
			}
			into.Items = append(into.Items, o.NetworkPolicy)
		case *networkingv1.NetworkPolicy:
			into.Items = append(into.Items, *o)
		}
		return nil
	},
}
