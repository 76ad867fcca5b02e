package controllers

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/policy"
)

// lightCluster is a ClusterNetworkPolicy without the fields that the agent does not use:
// annotations, labels, managedFields, status. The size of its spec is checked while it is
// decoded. The API server sends objects of this kind as JSON only.
type lightCluster struct{ v1alpha2.ClusterNetworkPolicy }

// clusterVersion is the version of ClusterNetworkPolicy that is read.
var clusterVersion = schema.GroupVersion(v1alpha2.GroupVersion)

// addLightClusters registers ClusterNetworkPolicies for a client that only watches them. It
// fails to decode an event of another kind.
func addLightClusters(scheme *runtime.Scheme) error {
	scheme.AddKnownTypeWithName(clusterVersion.WithKind("ClusterNetworkPolicy"), &lightCluster{})
	metav1.AddToGroupVersion(scheme, clusterVersion)
	return nil
}

// UnmarshalJSON implements json.Unmarshaler. An unreadable spec is not an error, as it would
// make the whole list fail; it becomes a spec that denies.
func (p *lightCluster) UnmarshalJSON(data []byte) error {
	var whole struct {
		metav1.TypeMeta
		Metadata metav1.ObjectMeta `json:"metadata"`
		Spec     json.RawMessage   `json:"spec"`
	}
	if err := json.Unmarshal(data, &whole); err != nil {
		return fmt.Errorf("decode a ClusterNetworkPolicy: %w", err)
	}
	p.ClusterNetworkPolicy = v1alpha2.ClusterNetworkPolicy{TypeMeta: whole.TypeMeta, ObjectMeta: keptMeta(&whole.Metadata)}
	if len(whole.Spec) > 0 { // a bookmark has none
		p.Spec = clusterSpec(whole.Spec)
	}
	return nil
}

// maxSpec is above what the limits of the CRD allow, which does not limit selectors. pkg/policy
// applies its own limits to the decoded spec.
const maxSpec = policy.ClusterBytes

// clusterSpec decodes a spec. An oversized or unreadable spec becomes one that denies all
// traffic in each direction that has a rule other than Accept. It keeps its subject if that
// is readable and of ordinary size, and selects every pod otherwise.
func clusterSpec(text []byte) v1alpha2.ClusterNetworkPolicySpec {
	if len(text) > maxSpec {
		return closedSpec(text, fmt.Sprintf("its spec has %d bytes of JSON, of which %d are read at most", len(text), maxSpec))
	}
	var spec v1alpha2.ClusterNetworkPolicySpec
	if err := json.Unmarshal(text, &spec); err != nil {
		return closedSpec(text, fmt.Sprintf("its spec cannot be read (%v)", err))
	}
	return spec
}

// closedSpec decodes the fields of a spec that CloseCluster keeps: of each rule only its
// action.
func closedSpec(text []byte, excess string) v1alpha2.ClusterNetworkPolicySpec {
	type rule struct {
		Action v1alpha2.ClusterNetworkPolicyRuleAction `json:"action"`
	}
	var head struct {
		Tier     v1alpha2.Tier   `json:"tier"`
		Priority int32           `json:"priority"`
		Subject  json.RawMessage `json:"subject"`
		Ingress  []rule          `json:"ingress"`
		Egress   []rule          `json:"egress"`
	}
	deny := rule{v1alpha2.ClusterNetworkPolicyRuleActionDeny}
	if json.Unmarshal(text, &head) != nil { // nothing of it can be trusted
		head.Tier, head.Subject, head.Ingress, head.Egress = v1alpha2.AdminTier, nil, []rule{deny}, []rule{deny}
	}
	spec := v1alpha2.ClusterNetworkPolicySpec{Tier: head.Tier, Priority: head.Priority}
	if n := len(head.Subject); n > policy.SubjectBytes || json.Unmarshal(head.Subject, &spec.Subject) != nil {
		spec.Subject = v1alpha2.ClusterNetworkPolicySubject{} // every pod
	}
	for _, r := range head.Ingress {
		spec.Ingress = append(spec.Ingress, v1alpha2.ClusterNetworkPolicyIngressRule{Action: r.Action})
	}
	for _, r := range head.Egress {
		spec.Egress = append(spec.Egress, v1alpha2.ClusterNetworkPolicyEgressRule{Action: r.Action})
	}
	return policy.CloseCluster(&spec, excess)
}

// keptCluster is a ClusterNetworkPolicy reduced to the fields that the agent uses.
type keptCluster struct {
	object *v1alpha2.ClusterNetworkPolicy
	nodes  bool // one of its peers selects nodes
}

// keptClusters says what is kept of ClusterNetworkPolicies.
func keptClusters() kept[keptCluster] {
	return kept[keptCluster]{
		kind: KindClusterPolicy,
		of: func(object runtime.Object) *keptCluster {
			var cnp *v1alpha2.ClusterNetworkPolicy
			switch o := object.(type) {
			case *lightCluster:
				cnp = &o.ClusterNetworkPolicy
			case *v1alpha2.ClusterNetworkPolicy:
				cnp = o
			default:
				return nil
			}
			return &keptCluster{
				nodes:  namesNodes(cnp),
				object: &v1alpha2.ClusterNetworkPolicy{ObjectMeta: keptMeta(&cnp.ObjectMeta), Spec: cnp.Spec},
			}
		},
		same: sameCluster,
	}
}

// sameCluster reports whether two versions of a policy have the same effect. It ignores the
// status, which every implementation may write. It compares the specs even if the generations
// are equal: after a restore of etcd, two specs can have the same generation.
func sameCluster(a, b *keptCluster) bool {
	x, y := a.object, b.object
	return x.UID == y.UID && x.Generation == y.Generation && equality.Semantic.DeepEqual(x.Spec, y.Spec)
}

// namesNodes reports whether a peer of the policy selects nodes.
func namesNodes(cnp *v1alpha2.ClusterNetworkPolicy) bool {
	for i := range cnp.Spec.Egress {
		for j := range cnp.Spec.Egress[i].To {
			if cnp.Spec.Egress[i].To[j].Nodes != nil {
				return true
			}
		}
	}
	return false
}
