//go:build linux

package agent

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/test/oracle"
)

// kube talks to the API server as its administrator.
type kube struct {
	core, networking, tiers *rest.RESTClient
}

func newKube(kubeconfig string) (*kube, error) {
	cfg, err := controllers.RESTConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), networkingv1.AddToScheme(scheme), v1alpha2.Install(scheme)); err != nil {
		return nil, err
	}
	client := func(path string, gv schema.GroupVersion, contentType string) (*rest.RESTClient, error) {
		c := rest.CopyConfig(cfg)
		c.APIPath, c.GroupVersion = path, &gv
		c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
		c.ContentType = contentType
		c.WarningHandlerWithContext = rest.NoWarnings{}
		c.QPS = -1 // no limit
		return rest.RESTClientFor(c)
	}
	k := &kube{}
	if k.core, err = client("/api", corev1.SchemeGroupVersion, runtime.ContentTypeProtobuf); err != nil {
		return nil, err
	}
	if k.networking, err = client("/apis", networkingv1.SchemeGroupVersion, runtime.ContentTypeProtobuf); err != nil {
		return nil, err
	}
	k.tiers, err = client("/apis", schema.GroupVersion(v1alpha2.GroupVersion), runtime.ContentTypeJSON) // of a CRD there is no protobuf
	return k, err
}

// client returns the client for a resource.
func (k *kube) client(resource string) *rest.RESTClient {
	switch resource {
	case policies:
		return k.networking
	case clusterPolicies:
		return k.tiers
	}
	return k.core
}

// The resources.
const (
	namespaces = "namespaces"
	nodes      = "nodes"
	pods       = "pods"
	policies   = "networkpolicies"
	accounts   = "serviceaccounts"

	clusterPolicies = "clusternetworkpolicies" // while the server has their CRD
)

// create creates an object; a namespace of "" is for those that are in none.
func (k *kube) create(ctx context.Context, resource, namespace string, object runtime.Object) error {
	return k.client(resource).Post().NamespaceIfScoped(namespace, namespace != "").Resource(resource).Body(object).Do(ctx).Error()
}

// update replaces an object, whatever its version.
func (k *kube) update(ctx context.Context, resource, namespace, name string, object runtime.Object) error {
	return k.client(resource).Put().NamespaceIfScoped(namespace, namespace != "").Resource(resource).Name(name).Body(object).Do(ctx).Error()
}

// patch merges JSON into an object, or into its status.
func (k *kube) patch(ctx context.Context, resource, namespace, name, subresource, body string) error {
	r := k.client(resource).Patch(types.MergePatchType).NamespaceIfScoped(namespace, namespace != "").Resource(resource).Name(name)
	if subresource != "" {
		r = r.SubResource(subresource)
	}
	return r.Body([]byte(body)).Do(ctx).Error()
}

// remove deletes an object without waiting for a kubelet.
func (k *kube) remove(ctx context.Context, resource, namespace, name string) error {
	return k.client(resource).Delete().NamespaceIfScoped(namespace, namespace != "").Resource(resource).Name(name).
		Param("gracePeriodSeconds", "0").Do(ctx).Error()
}

// empty deletes what tests put into a namespace.
func (k *kube) empty(ctx context.Context, namespace string) error {
	for _, resource := range []string{pods, policies, accounts} {
		err := k.client(resource).Delete().Namespace(namespace).Resource(resource).Param("gracePeriodSeconds", "0").Do(ctx).Error()
		if err != nil {
			return err
		}
	}
	return nil
}

// removeNamespace deletes a namespace and its contents, as the namespace
// controller would.
func (k *kube) removeNamespace(ctx context.Context, name string) error {
	if err := k.remove(ctx, namespaces, "", name); err != nil {
		return err
	}
	if err := k.empty(ctx, name); err != nil {
		return err
	}
	var ns corev1.Namespace
	if err := k.core.Get().Resource(namespaces).Name(name).Do(ctx).Into(&ns); err != nil {
		return err
	}
	ns.Spec.Finalizers = nil
	return k.core.Put().Resource(namespaces).Name(name).SubResource("finalize").Body(&ns).Do(ctx).Error()
}

// cluster reads what the API server has, for the oracle.
func (k *kube) cluster(ctx context.Context) (oracle.Cluster, error) {
	var (
		ns    corev1.NamespaceList
		node  corev1.NodeList
		pod   corev1.PodList
		np    networkingv1.NetworkPolicyList
		tiers v1alpha2.ClusterNetworkPolicyList
	)
	err := errors.Join(
		k.core.Get().Resource(namespaces).Do(ctx).Into(&ns),
		k.core.Get().Resource(nodes).Do(ctx).Into(&node),
		k.core.Get().Resource(pods).Do(ctx).Into(&pod),
		k.networking.Get().Resource(policies).Do(ctx).Into(&np),
	)
	// A server without the CRD has no such policies.
	if listed := k.tiers.Get().Resource(clusterPolicies).Do(ctx).Into(&tiers); !apierrors.IsNotFound(listed) {
		err = errors.Join(err, listed)
	}
	return oracle.Cluster{Namespaces: ns.Items, Nodes: node.Items, Pods: pod.Items, Policies: np.Items, ClusterPolicies: tiers.Items}, err
}
