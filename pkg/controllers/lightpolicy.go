package controllers

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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
	policyMeta    protowire.Number = 1
	policySpec    protowire.Number = 2
	policyIngress protowire.Number = 2
	policyEgress  protowire.Number = 3
)

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
// budget of one policy. Of such a spec it decodes podSelector and policyTypes, if they are of
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
	var head []byte // the spec without its rules
	err := eachWireField(p.spec, func(number protowire.Number, field, _ []byte) {
		if number != policyIngress && number != policyEgress {
			head = append(head, field...)
		}
	})
	if err == nil && len(head) <= policy.SubjectBytes {
		err = spec.Unmarshal(head)
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

// keptPolicy is a policy without the fields that the agent does not use, and closed when it is over
// a budget. The dataplane shares the Spec.
type keptPolicy struct {
	object *networkingv1.NetworkPolicy
	size   int // what it adds to its namespace; 0 if it is over the limit of one object, as nothing is kept of it then
	// shut: the policies of its namespace are over their limit, and its text was dropped.
	shut bool
}

// keptPolicies says what is kept of policies.
func keptPolicies(b policy.Budgets) kept[keptPolicy] {
	return kept[keptPolicy]{
		kind: KindPolicy,
		of:   func(object runtime.Object) *keptPolicy { return keptPolicyOf(object, b) },
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

// keptPolicyOf returns what is kept of one policy, or nil if the object is no policy.
func keptPolicyOf(object runtime.Object, b policy.Budgets) *keptPolicy {
	var np *networkingv1.NetworkPolicy
	var spec networkingv1.NetworkPolicySpec
	var size policy.Size
	var err error
	switch o := object.(type) {
	case *lightPolicy:
		np = &o.NetworkPolicy
		spec, size, err = o.decoded(b)
	case *networkingv1.NetworkPolicy:
		np, spec, size = o, o.Spec, policy.SizeOf(&o.Spec)
	default:
		return nil
	}
	excess := b.Excess(size)
	if err != nil {
		excess = fmt.Sprintf("its text cannot be read (%v)", err) // without its isolation its pods would be open
	}
	if excess != "" {
		spec, size = policy.Close(&spec, excess), policy.Size{}
	}
	return &keptPolicy{size: size.Total(), object: &networkingv1.NetworkPolicy{ObjectMeta: keptMeta(&np.ObjectMeta), Spec: spec}}
}

// keptMeta returns the fields of metadata that the agent uses.
func keptMeta(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, Generation: m.Generation,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp,
	}
}
