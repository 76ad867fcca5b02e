package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/bounded"
	"github.com/winnpm/winnpm/tool/manifest"
	"github.com/winnpm/winnpm/tool/phrase"
)

// firstList limits the time to list the objects of a live cluster.
const firstList = 15 * time.Second

// Options say which cluster Read reads.
type Options struct {
	Manifests  []string        // files, folders, or - for Stdin
	Namespace  string          // for objects in Manifests that name none; "": default
	Recursive  bool            // also read subfolders of Manifests
	Stdin      io.Reader       // read for -
	Inputs     *bounded.Inputs // as manifest.Options.Inputs
	SkipMakers bool            // as manifest.Options.SkipMakers

	Kubeconfig string                       // of a live cluster, instead of Manifests
	Connect    func() (*rest.Config, error) // to the cluster of Kubeconfig

	Node string // World.Node
}

// Read reads manifests, or lists the objects of a live cluster once.
func Read(ctx context.Context, o Options) (w World, err error) {
	if o.Kubeconfig == "" {
		w, err = readManifests(o)
	} else {
		w, err = readLive(ctx, o)
	}
	listed := w.listed()
	if err == nil && o.Node != "" && len(listed) > 0 && !slices.ContainsFunc(listed, func(n Node) bool { return n.Name == o.Node }) {
		var names []string
		for _, n := range listed {
			names = append(names, n.Name)
		}
		err = fmt.Errorf("no Node is called %q; did you mean %s?", o.Node, cmp.Or(phrase.Similar(o.Node, names), names[0]))
	}
	return w, err
}

// readManifests reads the objects of manifests.
func readManifests(o Options) (World, error) {
	objects, loaded, err := manifest.Load(o.Manifests, manifest.Options{Stdin: o.Stdin, Inputs: o.Inputs, Recursive: o.Recursive, SkipMakers: o.SkipMakers, Namespace: o.Namespace})
	if err != nil {
		return World{}, err
	}
	w, err := FromManifests(objects, o.Node)
	w.Now, w.Warnings = time.Now(), loaded
	for _, p := range objects.Pods {
		pod := PodOf(p, nil)
		w.addWarning(ipv6Warning(p, &pod))
	}
	return w, err
}

// readLive lists the objects of a live cluster.
func readLive(ctx context.Context, o Options) (World, error) {
	cfg, err := o.Connect()
	if err != nil {
		return World{}, err
	}
	source, err := controllers.ClusterSource(cfg, o.Node)
	if err != nil {
		return World{}, fmt.Errorf("kubeconfig %s: %w", o.Kubeconfig, err)
	}
	objects, err := list(ctx, source)
	if err != nil {
		return World{}, fmt.Errorf("kubeconfig %s: the server gave no full list: %w", o.Kubeconfig, err)
	}
	limited, cancel := context.WithTimeout(ctx, firstList)
	defer cancel()
	w := World{
		Node: o.Node, Now: time.Now(), Policies: objects.Policies, ClusterPolicies: objects.ClusterPolicies,
		OthersLabels: map[string]map[string]string{}, Warnings: olderPolicies(limited, cfg),
	}
	for _, n := range objects.Nodes {
		w.Nodes = append(w.Nodes, nodeOf(n))
	}
	for _, p := range objects.Pods {
		pod := PodOf(p, nil)
		w.Pods = append(w.Pods, pod)
		w.addWarning(ipv6Warning(p, &pod))
	}
	for _, n := range objects.Namespaces {
		ns := desired.Namespace{Name: n.Name, Labels: n.Labels}
		ns.Fit()
		w.Namespaces = append(w.Namespaces, ns)
		w.OthersLabels[ns.Name] = othersLabels(n)
	}
	w.AddNodes()
	return w, nil
}

// list lists the objects of a live cluster.
func list(ctx context.Context, from controllers.Source) (manifest.Objects, error) {
	limited, cancel := context.WithTimeout(ctx, firstList)
	defer cancel()
	var o manifest.Objects
	err := cmp.Or(
		listInto(limited, from.Pods, &o.Pods), listInto(limited, from.Namespaces, &o.Namespaces),
		listInto(limited, from.Policies, &o.Policies), listInto(limited, from.ClusterPolicies, &o.ClusterPolicies),
		listInto(limited, from.AllNodes, &o.Nodes),
	)
	if late, is := errors.AsType[net.Error](err); ctx.Err() == nil && is && late.Timeout() {
		return manifest.Objects{}, fmt.Errorf("no answer within %s", firstList)
	}
	return o, err
}

// listInto lists objects of one kind. It ignores a kind that the cluster does not have.
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

func (w *World) addWarning(warning state.Warning, is bool) {
	if is {
		w.Warnings = append(w.Warnings, warning)
	}
}

// ipv6Warning returns a warning, and true, if a running pod in the pod network has only IPv6 addresses. pod is
// PodOf the object.
func ipv6Warning(object *corev1.Pod, pod *Pod) (state.Warning, bool) {
	ip := object.Status.PodIP
	if ip == "" && len(object.Status.PodIPs) > 0 {
		ip = object.Status.PodIPs[0].IP
	}
	return state.Warning{
		Object: pod.Key().String(), Kind: "Pod", Reason: manifest.NoIPv4,
		Message: fmt.Sprintf("its only address is %s: WinNPM judges IPv4 only, so no policy holds for this pod and no verdict has it", ip),
	}, ip != "" && !pod.Addr.IsValid() && !pod.HostNetwork && !pod.Finished
}

// othersLabels returns the labels of an object that the last kubectl apply did not set.
func othersLabels(o metav1.Object) map[string]string {
	var last struct {
		Metadata struct{ Labels map[string]string }
	}
	if err := json.Unmarshal([]byte(o.GetAnnotations()[corev1.LastAppliedConfigAnnotation]), &last); err != nil {
		last.Metadata.Labels = nil // no kubectl apply, or an unreadable annotation
	}
	out := maps.Clone(o.GetLabels())
	maps.DeleteFunc(out, func(key, _ string) bool { _, ok := last.Metadata.Labels[key]; return ok })
	return out
}
