package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/tool/manifest"
	"github.com/winnpm/winnpm/tool/whatif"
)

// World reads the objects of manifests, or lists those of a live cluster once. Nodes that
// say they run Linux are left out, as other agents serve them; with Options.Node, all but
// that one are. It uses only the options that say what to simulate.
func World(ctx context.Context, o Options) (whatif.World, error) {
	in, err := open(o, true)
	if err != nil {
		return whatif.World{}, err
	}
	l := lists{in.objects.Pods, in.objects.Namespaces, in.objects.Policies, in.objects.Nodes, in.objects.ClusterPolicies}
	if o.Kubeconfig != "" {
		if err := l.list(ctx, in.source); err != nil {
			return whatif.World{}, fmt.Errorf("kubeconfig %s: the server gave no full list: %w", o.Kubeconfig, err)
		}
	}
	if o.Node != "" && len(l.nodes) > 0 && !slices.ContainsFunc(l.nodes, func(n *corev1.Node) bool { return n.Name == o.Node }) {
		return whatif.World{}, fmt.Errorf("the cluster has no Node %q; kubectl get nodes lists them", o.Node)
	}
	w := l.world(o.Node, in.objects.Makers, o.Kubeconfig == "")
	for _, p := range l.pods {
		if warning, is := manifest.OnlyIPv6(p); is && o.Kubeconfig != "" {
			in.loaded = append(in.loaded, warning)
		}
	}
	for _, loaded := range in.loaded {
		if loaded.Misleads() {
			w.Warnings = append(w.Warnings, warnings([]manifest.Warning{loaded}, nil)...)
		}
	}
	return w, nil
}

// lists are the objects of a cluster.
type lists struct {
	pods       []*corev1.Pod
	namespaces []*corev1.Namespace
	policies   []*networkingv1.NetworkPolicy
	nodes      []*corev1.Node
	clusters   []*v1alpha2.ClusterNetworkPolicy
}

// list lists the objects of a live cluster.
func (l *lists) list(ctx context.Context, from controllers.Source) error {
	ctx, cancel := context.WithTimeout(ctx, firstList)
	defer cancel()
	err := listInto(ctx, from.Pods, &l.pods)
	if err == nil {
		err = listInto(ctx, from.Namespaces, &l.namespaces)
	}
	if err == nil {
		err = listInto(ctx, from.Policies, &l.policies)
	}
	if err == nil {
		err = listInto(ctx, from.ClusterPolicies, &l.clusters)
	}
	if err == nil {
		err = listInto(ctx, from.AllNodes, &l.nodes)
	}
	return err
}

// listInto lists objects of one kind. A cluster that does not have the kind has none.
func listInto[T runtime.Object](ctx context.Context, from cache.ListerWatcher, to *[]T) error {
	list, err := cache.ToListerWatcherWithContext(from).ListWithContext(ctx, metav1.ListOptions{})
	if errors.Is(err, controllers.ErrNoKind) {
		return nil
	}
	if err != nil {
		return err
	}
	return meta.EachListItem(list, func(object runtime.Object) error {
		one, ok := object.(T)
		if !ok {
			return fmt.Errorf("%T is no %T", object, *new(T))
		}
		*to = append(*to, one)
		return nil
	})
}

func (l *lists) world(only string, makers map[string]string, manifests bool) whatif.World {
	w := whatif.World{Now: time.Now(), FromManifests: manifests, OthersLabels: map[string]map[string]string{}, Makers: makers}
	for _, n := range l.nodes {
		w.Peers = append(w.Peers, controllers.ClusterNode(n))
		if ofInterest(n) {
			w.Nodes = append(w.Nodes, whatif.Node{Name: n.Name, Addrs: controllers.NodeAddrs(n)})
		}
	}
	for _, p := range l.pods {
		pod := whatif.Pod{Pod: controllers.PodFrom(p, p.Spec.NodeName), Node: p.Spec.NodeName, Owners: Owners(p, makers)}
		pod.Fit()
		w.Pods = append(w.Pods, pod)
	}
	for _, o := range l.namespaces {
		ns := desired.Namespace{Name: o.Name, Labels: o.Labels}
		if !manifests {
			w.OthersLabels[ns.Name] = othersLabels(o)
		}
		ns.Fit()
		w.Namespaces = append(w.Namespaces, ns)
	}
	w.Policies, w.ClusterPolicies = l.policies, l.clusters
	w.AddNodes()
	if only != "" {
		w.Nodes = slices.DeleteFunc(w.Nodes, func(n whatif.Node) bool { return n.Name != only })
	}
	return w
}

// ofInterest reports whether WinNPM serves a node: it does not say that it runs Linux.
func ofInterest(n *corev1.Node) bool { return n.Labels[corev1.LabelOSStable] != string(corev1.Linux) }

// othersLabels returns the labels that whoever applied an object last did not give.
func othersLabels(o metav1.Object) map[string]string {
	var last struct {
		Metadata struct{ Labels map[string]string }
	}
	if err := json.Unmarshal([]byte(o.GetAnnotations()[corev1.LastAppliedConfigAnnotation]), &last); err != nil {
		last.Metadata.Labels = nil // nobody applied it, or nobody can tell
	}
	out := maps.Clone(o.GetLabels())
	maps.DeleteFunc(out, func(key, _ string) bool { _, ok := last.Metadata.Labels[key]; return ok })
	return out
}
