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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/simulate/manifest"
	"github.com/winnpm/winnpm/pkg/whatif"
)

// World reads the objects of manifests, or lists those of a live cluster once. Nodes that
// say they run Linux are left out, as other agents serve them; with Options.Node, all but
// that one are. It uses only the options that say what to simulate.
func World(ctx context.Context, o Options) (whatif.World, error) {
	in, err := open(o, true)
	if err != nil {
		return whatif.World{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, firstList)
	defer cancel()
	var l lists
	for _, part := range []struct {
		from cache.ListerWatcher
		into func(runtime.Object) bool
	}{
		{in.source.Pods, func(o runtime.Object) bool { return into(o, &l.pods) }},
		{in.source.Namespaces, func(o runtime.Object) bool { return into(o, &l.namespaces) }},
		{in.source.Policies, func(o runtime.Object) bool { return into(o, &l.policies) }},
		{in.source.ClusterPolicies, func(o runtime.Object) bool { return into(o, &l.clusters) }},
		{in.source.AllNodes, func(o runtime.Object) bool { return into(o, &l.nodes) }},
	} {
		object, err := cache.ToListerWatcherWithContext(part.from).ListWithContext(ctx, metav1.ListOptions{})
		switch {
		case errors.Is(err, controllers.ErrNoKind): // a cluster without it has none
			err = nil
		case err == nil && !part.into(object):
			err = fmt.Errorf("%T is no such list", object)
		}
		if err != nil { // of a server: what is in memory is there
			return whatif.World{}, fmt.Errorf("kubeconfig %s: the server gave no full list: %w", o.Kubeconfig, err)
		}
	}
	if o.Node != "" && len(l.nodes.Items) > 0 && !slices.ContainsFunc(l.nodes.Items, func(n corev1.Node) bool { return n.Name == o.Node }) {
		return whatif.World{}, fmt.Errorf("the cluster has no Node %q; kubectl get nodes lists them", o.Node)
	}
	w := l.world(o.Node, in.objects.Makers, o.Kubeconfig == "")
	for i := range l.pods.Items {
		if warning, is := manifest.OnlyIPv6(&l.pods.Items[i]); is && o.Kubeconfig != "" {
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
	pods       corev1.PodList
	namespaces corev1.NamespaceList
	policies   networkingv1.NetworkPolicyList
	nodes      corev1.NodeList
	clusters   v1alpha2.ClusterNetworkPolicyList
}

// into keeps a list of the right type.
func into[T any](object runtime.Object, at *T) bool {
	list, ok := any(object).(*T)
	if ok {
		*at = *list
	}
	return ok
}

func (l *lists) world(only string, makers map[string]manifest.Maker, manifests bool) whatif.World {
	w := whatif.World{Now: time.Now(), Budgets: policy.DefaultBudgets(), FromManifests: manifests, OthersLabels: map[string]map[string]string{}, Makers: map[string]whatif.Maker{}}
	for name, m := range makers {
		w.Makers[name] = whatif.Maker(m)
	}
	for i := range l.nodes.Items {
		n := &l.nodes.Items[i]
		w.Peers = append(w.Peers, controllers.ClusterNode(n, w.Budgets))
		if ofInterest(n) {
			w.Nodes = append(w.Nodes, whatif.Node{Name: n.Name, Addrs: controllers.NodeAddrs(n)})
		}
	}
	for i := range l.pods.Items {
		p := &l.pods.Items[i]
		pod := whatif.Pod{Pod: controllers.PodFrom(p, p.Spec.NodeName), Node: p.Spec.NodeName, Owners: Owners(p, makers)}
		pod.Fit(w.Budgets)
		w.Pods = append(w.Pods, pod)
	}
	for i := range l.namespaces.Items {
		ns := desired.Namespace{Name: l.namespaces.Items[i].Name, Labels: l.namespaces.Items[i].Labels}
		if !manifests {
			w.OthersLabels[ns.Name] = othersLabels(&l.namespaces.Items[i])
		}
		ns.Fit(w.Budgets)
		w.Namespaces = append(w.Namespaces, ns)
	}
	for i := range l.policies.Items {
		w.Policies = append(w.Policies, &l.policies.Items[i])
	}
	for i := range l.clusters.Items {
		w.ClusterPolicies = append(w.ClusterPolicies, &l.clusters.Items[i])
	}
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
