package controllers

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
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
	answer, err := s.ListWatch.ListWithContext(ctx, options)
	if err != nil {
		return nil, s.meant(ctx, err)
	}
	light, ok := answer.(*lightClusterList)
	if !ok {
		return nil, fmt.Errorf("list %s: the answer is a %T", clusterResource, answer)
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
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		if has, asked := s.has(ctx); asked == nil && has || asked != nil && !apierrors.IsForbidden(asked) {
			return fmt.Errorf("%w, but the API server does not say that it has no such kind", err)
		}
		return fmt.Errorf("%w: %w", ErrNoKind, err)
	case apierrors.IsForbidden(err):
		if has, asked := s.has(ctx); asked == nil && !has {
			return fmt.Errorf("%w: %w", ErrNoKind, err)
		}
		return fmt.Errorf("%w; give the agent the rights of deploy/base/rbac.yaml", err)
	}
	return err
}

// has reports whether the server says that it has the kind.
func (s clusterSource) has(ctx context.Context) (bool, error) {
	kinds, err := s.kinds(ctx)
	if err == nil {
		return slices.ContainsFunc(kinds.APIResources, func(r metav1.APIResource) bool { return r.Name == clusterResource }), nil
	}
	if !apierrors.IsNotFound(err) {
		return false, err
	}
	// Whatever stands before the server may say "not found", too. A list of all groups
	// only the server has.
	var groups metav1.APIGroupList
	if err := s.get(ctx, &groups, "/apis"); err != nil {
		return false, err
	}
	if groups.Kind != "APIGroupList" {
		return false, fmt.Errorf("/apis answers with the kind %q", groups.Kind)
	}
	gv := clusterVersion
	return slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool {
		return g.Name == gv.Group && slices.ContainsFunc(g.Versions, func(v metav1.GroupVersionForDiscovery) bool { return v.Version == gv.Version })
	}), nil
}

// kinds returns the kinds of the API's version that the server has.
func (s clusterSource) kinds(ctx context.Context) (kinds metav1.APIResourceList, err error) {
	err = s.get(ctx, &kinds, "/apis", clusterVersion.Group, clusterVersion.Version)
	if err == nil && kinds.Kind != "APIResourceList" {
		err = fmt.Errorf("the list of kinds is of kind %q", kinds.Kind)
	}
	return kinds, err
}

// get reads what a path answers, as JSON.
func (s clusterSource) get(ctx context.Context, into any, path ...string) error {
	body, err := s.client.Get().AbsPath(path...).SetHeader("Accept", runtime.ContentTypeJSON).Stream(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }() // it was only read
	return json.NewDecoder(bufio.NewReader(body)).Decode(into)
}
