package simulate

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/tool/manifest"
)

// memory serves the objects of manifests to the reflectors that otherwise read a live cluster. The
// objects never change, so its watches stay silent. Its lists have the objects themselves, not
// copies: readers must not change them.
type memory struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported makes reflectors list before they watch: a
// silent watch has no initial events.
func (memory) IsWatchListSemanticsUnSupported() bool { return true }

// memoryOf serves objects. With once it lets go of them when they are listed: no reflector lists
// again after a silent watch.
func memoryOf[T runtime.Object](objects []T, once bool) memory {
	return memory{&cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			list := &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
			for _, o := range objects {
				list.Items = append(list.Items, runtime.RawExtension{Object: o})
			}
			if once {
				objects = nil
			}
			return list, nil
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			return watch.NewProxyWatcher(make(chan watch.Event)), nil
		},
	}}
}

// memorySource serves manifests; with a node, that one alone of Source.Nodes.
func memorySource(o manifest.Objects, node string) controllers.Source {
	own := slices.DeleteFunc(slices.Clone(o.Nodes), func(n *corev1.Node) bool { return node != "" && n.Name != node })
	return controllers.Source{
		Pods: memoryOf(o.Pods, true), Namespaces: memoryOf(o.Namespaces, false), Policies: memoryOf(o.Policies, false),
		ClusterPolicies: memoryOf(o.ClusterPolicies, false), Nodes: memoryOf(own, false), AllNodes: memoryOf(o.Nodes, false),
	}
}
