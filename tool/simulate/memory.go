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
	"github.com/winnpm/winnpm/tool/manifest"
)

// memory serves the objects of manifests to the same reflectors that read a live cluster.
// The objects never change, so its watches stay silent. It hands out the objects themselves,
// of which there may be many: whoever reads them changes nothing.
type memory struct {
	objects []runtime.Object
	list    func() runtime.Object // one without any
	// once: the first list is the only one. Each object is dropped as it is passed on.
	once bool
	gone bool
}

var _ cache.ListerWatcherWithContext = &memory{}

// errListed is a second list where there is one only.
var errListed = errors.New("BUG: objects of manifests that are let go of were listed twice")

// listMeta is that of every list: there is one version.
func listMeta() metav1.ListMeta { return metav1.ListMeta{ResourceVersion: "1"} }

// ListEach passes on every object; the informers keep what they make of it, so that no
// list of all of them is made.
func (m *memory) ListEach(_ context.Context, _ metav1.ListOptions, yield func(runtime.Object) error) (metav1.ListMeta, error) {
	return listMeta(), m.each(yield)
}

func (m *memory) each(yield func(runtime.Object) error) error {
	if m.gone {
		return errListed
	}
	objects := m.objects
	if m.once {
		m.objects, m.gone = nil, true
	}
	for i, o := range objects {
		if m.once {
			objects[i] = nil
		}
		if err := yield(o); err != nil {
			return err
		}
	}
	return nil
}

// List implements cache.Lister, for who wants them all at once.
func (m *memory) List(metav1.ListOptions) (runtime.Object, error) {
	var all []runtime.Object
	if err := m.each(func(o runtime.Object) error {
		all = append(all, o)
		return nil
	}); err != nil {
		return nil, err
	}
	list := m.list()
	return list, meta.SetList(list, all)
}

// ListWithContext implements cache.ListerWithContext.
func (m *memory) ListWithContext(_ context.Context, options metav1.ListOptions) (runtime.Object, error) {
	return m.List(options)
}

// Watch implements cache.Watcher.
func (m *memory) Watch(metav1.ListOptions) (watch.Interface, error) {
	return watch.NewProxyWatcher(make(chan watch.Event)), nil
}

// WatchWithContext implements cache.WatcherWithContext.
func (m *memory) WatchWithContext(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return m.Watch(options)
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
	pods := memoryOf(o.Pods, func() runtime.Object { return &corev1.PodList{ListMeta: listMeta()} })
	pods.once = true
	return controllers.Source{
		Pods:            pods,
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
