package simulate

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/simulate/manifest"
)

// memory serves the objects of manifests to the same reflectors that read a live cluster.
// The objects never change, so its watches stay silent, and a reflector lists once. It hands
// out the objects themselves, of which there may be many, and lets go of them: whoever reads
// them changes nothing.
type memory struct {
	objects []runtime.Object
	listed  bool
	list    func() runtime.Object // one without any
}

var _ cache.ListerWatcher = &memory{}

// errListed is a second list.
var errListed = errors.New("BUG: the objects of manifests were listed twice")

// listMeta is that of every list: there is one version.
func listMeta() metav1.ListMeta { return metav1.ListMeta{ResourceVersion: "1"} }

// ListEach passes on every object; the informers keep what they make of it, so that no
// list of all of them is made.
func (m *memory) ListEach(_ context.Context, _ metav1.ListOptions, yield func(runtime.Object) error) (metav1.ListMeta, error) {
	if m.listed {
		return metav1.ListMeta{}, errListed
	}
	objects := m.objects
	m.listed, m.objects = true, nil
	for i, o := range objects {
		if err := yield(o); err != nil {
			return metav1.ListMeta{}, err
		}
		objects[i] = nil
	}
	return listMeta(), nil
}

// List implements cache.Lister, for who wants them all at once.
func (m *memory) List(metav1.ListOptions) (runtime.Object, error) {
	if m.listed {
		return nil, errListed
	}
	list := m.list()
	return list, meta.SetList(list, m.objects)
}

// Watch implements cache.Watcher.
func (m *memory) Watch(metav1.ListOptions) (watch.Interface, error) {
	return watch.NewProxyWatcher(make(chan watch.Event)), nil
}

// IsWatchListSemanticsUnSupported makes reflectors list before they watch: a
// silent watch has no initial events.
func (m *memory) IsWatchListSemanticsUnSupported() bool { return true }

// memorySource serves manifests; with a node, that one alone of Source.Nodes.
func memorySource(o manifest.Objects, node string) controllers.Source {
	own := o.Nodes
	if node != "" {
		own = nil
		for _, n := range o.Nodes {
			if n.Name == node {
				own = append(own, n)
			}
		}
	}
	nodes := func() runtime.Object { return &corev1.NodeList{ListMeta: listMeta()} }
	return controllers.Source{
		Pods:            memoryOf(o.Pods, func() runtime.Object { return &corev1.PodList{ListMeta: listMeta()} }),
		Namespaces:      memoryOf(o.Namespaces, func() runtime.Object { return &corev1.NamespaceList{ListMeta: listMeta()} }),
		Policies:        memoryOf(o.Policies, func() runtime.Object { return &networkingv1.NetworkPolicyList{ListMeta: listMeta()} }),
		ClusterPolicies: memoryOf(o.ClusterPolicies, func() runtime.Object { return &v1alpha2.ClusterNetworkPolicyList{ListMeta: listMeta()} }),
		Nodes:           memoryOf(own, nodes), AllNodes: memoryOf(o.Nodes, nodes),
	}
}

func memoryOf[T runtime.Object](objects []T, list func() runtime.Object) *memory {
	m := &memory{list: list}
	for _, o := range objects {
		m.objects = append(m.objects, o)
	}
	return m
}
