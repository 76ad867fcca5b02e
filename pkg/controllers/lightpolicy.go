package controllers

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/winnpm/winnpm/pkg/policy"
)

// lightPolicy is a NetworkPolicy whose spec stays encoded until its size has been compared
// with the budget. A decoded spec may take thirty times the memory of an encoded one.
type lightPolicy struct {
	networkingv1.NetworkPolicy
	// spec is the spec as protobuf; nil: NetworkPolicy has it.
	spec []byte
}

// addLightPolicies registers policies for a client that only reads them. A list that
// client-go decodes, from a server without protobuf, has whole policies.
func addLightPolicies(scheme *runtime.Scheme) error {
	gv := networkingv1.SchemeGroupVersion
	scheme.AddKnownTypeWithName(gv.WithKind("NetworkPolicy"), &lightPolicy{})
	scheme.AddKnownTypes(gv, &networkingv1.NetworkPolicyList{})
	metav1.AddToGroupVersion(scheme, gv)
	return nil
}

// Fields of NetworkPolicy and of its spec, by number, which never changes.
const (
	policyMeta  protowire.Number = 1
	policySpec  protowire.Number = 2
	policyPods  protowire.Number = 1
	policyTypes protowire.Number = 4
)

// typesBytes is above the encoded size of a list of both directions.
const typesBytes = 64

// Unmarshal decodes from protobuf all but the spec.
func (p *lightPolicy) Unmarshal(data []byte) error {
	var metadata []byte
	p.spec = []byte{}
	err := eachWireField(data, func(number protowire.Number, _, content []byte) {
		if number == policyMeta { // a field that comes twice is merged
			metadata = append(metadata, content...)
		}
		if number == policySpec {
			p.spec = append(p.spec, content...)
		}
	})
	if err == nil {
		err = p.ObjectMeta.Unmarshal(metadata)
	}
	if err != nil {
		return fmt.Errorf("decode a policy: %w", err)
	}
	return nil
}

// eachWireField calls visit for every field of a protobuf message: with all of its bytes,
// and with its content if it has a length.
func eachWireField(message []byte, visit func(number protowire.Number, field, content []byte)) error {
	for len(message) > 0 {
		number, kind, key := protowire.ConsumeTag(message)
		if key < 0 {
			return protowire.ParseError(key)
		}
		size := protowire.ConsumeFieldValue(number, kind, message[key:])
		if size < 0 {
			return protowire.ParseError(size)
		}
		var content []byte
		if kind == protowire.BytesType {
			content, _ = protowire.ConsumeBytes(message[key:])
		}
		visit(number, message[:key+size], content)
		message = message[key+size:]
	}
	return nil
}

// decoded returns the spec and its size. It decodes no rules of a spec that exceeds the
// budget of one policy. Of such a spec it decodes podSelector and policyTypes, if each is of
// ordinary size. Without policyTypes the spec isolates in both directions.
func (p *lightPolicy) decoded(b policy.Budgets) (networkingv1.NetworkPolicySpec, policy.Size, error) {
	if p.spec == nil {
		return p.Spec, policy.SizeOf(&p.Spec), nil
	}
	var spec networkingv1.NetworkPolicySpec
	if len(p.spec) <= b.ObjectBytes {
		if err := spec.Unmarshal(p.spec); err != nil {
			return closedWhole(), policy.Size{}, fmt.Errorf("decode a policy: %w", err)
		}
		return spec, policy.SizeOf(&spec), nil
	}
	size := policy.Size{Bytes: len(p.spec)}
	var pods, types []byte
	err := eachWireField(p.spec, func(number protowire.Number, field, content []byte) {
		if number == policyPods {
			pods = append(pods, content...)
		}
		if number == policyTypes {
			types = append(types, field...)
		}
	})
	if err == nil && len(pods) <= policy.SubjectBytes {
		err = spec.PodSelector.Unmarshal(pods)
	}
	if err == nil && len(types) <= typesBytes {
		err = spec.Unmarshal(types) // keeps podSelector
	}
	if err != nil {
		return closedWhole(), size, fmt.Errorf("decode a policy: %w", err)
	}
	if len(spec.PolicyTypes) == 0 {
		spec.PolicyTypes = closedWhole().PolicyTypes
	}
	return spec, size, nil
}

// closedWhole returns a spec that isolates every pod of the namespace in both directions. It
// replaces an unreadable spec: anything weaker could open a pod that the policy closes.
func closedWhole() networkingv1.NetworkPolicySpec {
	return networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}}
}

// policyItems reads policies.
var policyItems = itemKind{
	resource: "networkpolicies", list: "NetworkPolicyList",
	item: func(content []byte) (runtime.Object, error) {
		np := &lightPolicy{}
		return np, np.Unmarshal(content)
	},
}
