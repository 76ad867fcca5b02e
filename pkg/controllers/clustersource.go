package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

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
		return nil, s.meant(ctx, fmt.Errorf("list %s: %w", clusterResource, err))
	}
	list := &v1alpha2.ClusterNetworkPolicyList{ListMeta: light.ListMeta}
	for i := range light.Items {
		list.Items = append(list.Items, light.Items[i].ClusterNetworkPolicy)
	}
	return list, nil
}

// meant returns the meaning of a list's error. The API server answers "not found" for a kind
// that it does not have. It answers "forbidden" for a kind that the agent may not list, whether
// it has the kind or not. So meant reads the list of kinds, which every client may read. If
// that is forbidden too, "not found" counts as a missing kind.
func (s clusterSource) meant(ctx context.Context, err error) error {
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
	// Whatever stands before the server may say "not found", too. A list of all groups
	// only the server has.
	var groups metav1.APIGroupList
	err = get(ctx, s.client.Get().AbsPath("/apis"), "APIGroupList", &groups)
	return slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool {
		return g.Name == gv.Group && slices.ContainsFunc(g.Versions, func(v metav1.GroupVersionForDiscovery) bool { return v.Version == gv.Version })
	}), err
}

// get reads the answer to a request, as JSON. It fails if the answer is of another kind.
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
