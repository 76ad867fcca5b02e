package simulate

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/simulate/manifest"
)

// memory serves the objects of manifests to the same reflectors that read a
// live cluster. The objects never change, so its watches stay silent.
type memory struct{ list runtime.Object }

var _ cache.ListerWatcher = memory{}

// List implements cache.Lister. The caller may change what it gets.
func (m memory) List(metav1.ListOptions) (runtime.Object, error) {
	return m.list.DeepCopyObject(), nil
}

// Watch implements cache.Watcher.
func (m memory) Watch(metav1.ListOptions) (watch.Interface, error) {
	return watch.NewProxyWatcher(make(chan watch.Event)), nil
}

// IsWatchListSemanticsUnSupported makes reflectors list before they watch: a
// silent watch has no initial events.
func (m memory) IsWatchListSemanticsUnSupported() bool { return true }

// memorySource serves manifests; with a node, that one alone of Source.Nodes.
func memorySource(o manifest.Objects, node string) controllers.Source {
	meta := metav1.ListMeta{ResourceVersion: "1"}
	pods := &corev1.PodList{ListMeta: meta}
	for _, p := range o.Pods {
		pods.Items = append(pods.Items, *p)
	}
	namespaces := &corev1.NamespaceList{ListMeta: meta}
	for _, ns := range o.Namespaces {
		namespaces.Items = append(namespaces.Items, *ns)
	}
	policies := &networkingv1.NetworkPolicyList{ListMeta: meta}
	for _, np := range o.Policies {
		policies.Items = append(policies.Items, *np)
	}
	clusters := &v1alpha2.ClusterNetworkPolicyList{ListMeta: meta}
	for _, cnp := range o.ClusterPolicies {
		clusters.Items = append(clusters.Items, *cnp)
	}
	all, nodes := &corev1.NodeList{ListMeta: meta}, &corev1.NodeList{ListMeta: meta}
	for _, n := range o.Nodes {
		all.Items = append(all.Items, *n)
		if node == "" || n.Name == node {
			nodes.Items = append(nodes.Items, *n)
		}
	}
	return controllers.Source{
		Pods: memory{pods}, Namespaces: memory{namespaces}, Policies: memory{policies}, Nodes: memory{nodes},
		ClusterPolicies: memory{clusters}, AllNodes: memory{all},
	}
}
