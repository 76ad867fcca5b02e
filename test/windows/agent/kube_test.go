//go:build linux

package agent

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/winnpm/winnpm/pkg/controllers"
)

// kube talks to the API server as its administrator.
type kube struct {
	core, networking *rest.RESTClient
}

func newKube(kubeconfig string) (*kube, error) {
	cfg, err := controllers.RESTConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), networkingv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	client := func(path string, gv schema.GroupVersion) (*rest.RESTClient, error) {
		c := rest.CopyConfig(cfg)
		c.APIPath, c.GroupVersion = path, &gv
		c.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
		c.ContentType = runtime.ContentTypeProtobuf
		c.WarningHandlerWithContext = rest.NoWarnings{}
		c.QPS = -1 // no limit
		return rest.RESTClientFor(c)
	}
	k := &kube{}
	if k.core, err = client("/api", corev1.SchemeGroupVersion); err != nil {
		return nil, err
	}
	k.networking, err = client("/apis", networkingv1.SchemeGroupVersion)
	return k, err
}

// client returns the client for a resource.
func (k *kube) client(resource string) *rest.RESTClient {
	if resource == policies {
		return k.networking
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
)

// create creates an object; a namespace of "" is for those that are in none.
func (k *kube) create(ctx context.Context, resource, namespace string, object runtime.Object) error {
	return k.client(resource).Post().NamespaceIfScoped(namespace, namespace != "").Resource(resource).Body(object).Do(ctx).Error()
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
