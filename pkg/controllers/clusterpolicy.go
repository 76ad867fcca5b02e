package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
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

// maxSpec is the largest spec that is decoded, in bytes of JSON. It is above what the CRD allows,
// except that the CRD does not limit selectors. pkg/policy applies its own limits to the decoded
// spec.
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

// closedSpec decodes the fields of a spec that CloseCluster keeps. Of each rule that is only the
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
	if json.Unmarshal(text, &head) != nil { // unreadable: it denies everything for every pod
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

// keptClusters returns how the store keeps ClusterNetworkPolicies.
func keptClusters() kept[metav1.Object, keptCluster] {
	return kept[metav1.Object, keptCluster]{
		kind: KindClusterPolicy,
		of: func(object metav1.Object) *keptCluster {
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
	return slices.ContainsFunc(cnp.Spec.Egress, func(r v1alpha2.ClusterNetworkPolicyEgressRule) bool {
		return slices.ContainsFunc(r.To, func(p v1alpha2.ClusterNetworkPolicyEgressPeer) bool { return p.Nodes != nil })
	})
}

const clusterResource = "clusternetworkpolicies"

// clusterSource lists and watches ClusterNetworkPolicies of a cluster that may not have
// their CRD.
type clusterSource struct {
	*cache.ListWatch
	client *rest.RESTClient
}

func newClusterSource(c *rest.RESTClient) clusterSource {
	return clusterSource{cache.NewListWatchFromClient(c, clusterResource, metav1.NamespaceAll, fields.Everything()), c}
}

// ListWithContext lists the objects. It fails with ErrNoKind when the server has no such
// kind.
func (s clusterSource) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	var light struct {
		metav1.TypeMeta
		metav1.ListMeta `json:"metadata"`
		Items           []lightCluster `json:"items"`
	}
	request := s.client.Get().Resource(clusterResource).VersionedParams(&options, metav1.ParameterCodec)
	if err := get(ctx, request, "ClusterNetworkPolicyList", &light); err != nil {
		return nil, s.explainError(ctx, fmt.Errorf("list %s: %w", clusterResource, err))
	}
	list := &v1alpha2.ClusterNetworkPolicyList{ListMeta: light.ListMeta}
	for i := range light.Items {
		list.Items = append(list.Items, light.Items[i].ClusterNetworkPolicy)
	}
	return list, nil
}

// explainError adds to the error of a list what it means: ErrNoKind, or missing rights. The API server
// answers "not found" for a kind that it does not have, and "forbidden" for a kind that the agent
// may not list, whether it exists or not. So explainError reads the list of kinds, which every client may
// read. If that is forbidden too, "not found" counts as a missing kind.
func (s clusterSource) explainError(ctx context.Context, err error) error {
	notFound, forbidden := apierrors.IsNotFound(err), apierrors.IsForbidden(err)
	if !notFound && !forbidden {
		return err
	}
	has, asked := s.has(ctx)
	switch {
	case asked == nil && !has, notFound && apierrors.IsForbidden(asked):
		return fmt.Errorf("%w: %w", ErrNoKind, err)
	case notFound:
		return fmt.Errorf("%w, but the API server does not say that it has no such kind", err)
	}
	return fmt.Errorf("%w; give the agent the rights of deploy/base/rbac.yaml", err)
}

// has reports whether the server says that it has the kind.
func (s clusterSource) has(ctx context.Context) (bool, error) {
	gv := clusterVersion
	var kinds metav1.APIResourceList
	err := get(ctx, s.client.Get().AbsPath("/apis", gv.Group, gv.Version), "APIResourceList", &kinds)
	if !apierrors.IsNotFound(err) {
		return slices.ContainsFunc(kinds.APIResources, func(r metav1.APIResource) bool { return r.Name == clusterResource }), err
	}
	// A proxy in front of the server may also answer "not found". Only the server has the list of
	// all groups.
	var groups metav1.APIGroupList
	err = get(ctx, s.client.Get().AbsPath("/apis"), "APIGroupList", &groups)
	return slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool {
		return g.Name == gv.Group && slices.ContainsFunc(g.Versions, func(v metav1.GroupVersionForDiscovery) bool { return v.Version == gv.Version })
	}), err
}

// get reads the JSON answer to a request into the variable. It fails if the answer is of another
// kind.
func get(ctx context.Context, request *rest.Request, kind string, into interface{ GetObjectKind() schema.ObjectKind }) error {
	text, err := request.SetHeader("Accept", runtime.ContentTypeJSON).Do(ctx).Raw()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return err
	}
	if is := into.GetObjectKind().GroupVersionKind().Kind; is != kind {
		return fmt.Errorf("the answer is of kind %q", is)
	}
	return nil
}
