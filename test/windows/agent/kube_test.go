//go:build linux

package agent

import (
	"context"
	"encoding/json"
	"net/http"
	"path"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/winnpm/winnpm/test/servers"
)

// settle is how long a change may take until HNS has it, on a busy machine.
const settle = 30 * time.Second

func eventually(t *testing.T, limit time.Duration, missing func() string) {
	t.Helper()
	servers.Eventually(t, limit, missing)
}

// kube talks to the API server as its administrator.
type kube struct{ *servers.Client }

// The resources.
const (
	namespaces = "namespaces"
	nodes      = "nodes"
	pods       = "pods"
	policies   = "networkpolicies"
	accounts   = "serviceaccounts"
)

// pathOf returns the path of a resource, or of what is below it; a namespace of "" is for
// those that are in none.
func pathOf(resource, namespace string, below ...string) string {
	root := "/api/v1"
	if resource == policies {
		root = "/apis/networking.k8s.io/v1"
	}
	if namespace != "" {
		root = path.Join(root, "namespaces", namespace)
	}
	return path.Join(append([]string{root, resource}, below...)...)
}

// create creates an object.
func (k *kube) create(ctx context.Context, resource, namespace string, object any) error {
	return k.Do(ctx, http.MethodPost, pathOf(resource, namespace), object, nil)
}

// patch merges JSON into an object, or into its status.
func (k *kube) patch(ctx context.Context, resource, namespace, name, subresource, body string) error {
	return k.Do(ctx, http.MethodPatch, pathOf(resource, namespace, name, subresource), json.RawMessage(body), nil)
}

// remove deletes an object, or all of a resource, without waiting for a kubelet.
func (k *kube) remove(ctx context.Context, resource, namespace string, name ...string) error {
	return k.Do(ctx, http.MethodDelete, pathOf(resource, namespace, name...)+"?gracePeriodSeconds=0", nil, nil)
}

// removeNamespace deletes a namespace and what tests put into it, as the namespace
// controller would.
func (k *kube) removeNamespace(ctx context.Context, name string) error {
	if err := k.remove(ctx, namespaces, "", name); err != nil {
		return err
	}
	for _, resource := range []string{pods, policies, accounts} {
		if err := k.remove(ctx, resource, name); err != nil {
			return err
		}
	}
	var ns corev1.Namespace
	if err := k.Do(ctx, http.MethodGet, pathOf(namespaces, "", name), nil, &ns); err != nil {
		return err
	}
	ns.Spec.Finalizers = nil
	return k.Do(ctx, http.MethodPut, pathOf(namespaces, "", name, "finalize"), ns, nil)
}
