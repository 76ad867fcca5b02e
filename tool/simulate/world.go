package simulate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/winnpm/winnpm/pkg/controllers"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/manifest"
	"github.com/winnpm/winnpm/tool/phrase"
	"github.com/winnpm/winnpm/tool/whatif"
)

// firstList limits the time to list the objects of a live cluster.
const firstList = 15 * time.Second

// Cluster holds the objects of manifests or of a live cluster.
type Cluster struct {
	manifest.Objects
	options Options
	loaded  []state.Warning
}

// Read reads the manifests, or lists the objects of a live cluster once. It ignores the options about
// output and questions.
func Read(ctx context.Context, o Options) (*Cluster, error) { return read(ctx, o, true) }

// read is Read. Without allMakers it skips the owners of pods that only plans and traces need.
func read(ctx context.Context, o Options, allMakers bool) (c *Cluster, err error) {
	if o.Kubeconfig == "" {
		c = &Cluster{options: o}
		c.Objects, c.loaded, err = manifest.Load(o.Manifests, manifest.Options{Node: o.Node, Stdin: o.Stdin, Inputs: o.Inputs, Recursive: o.Recursive, AllMakers: allMakers, Namespace: o.Namespace})
	} else {
		c, err = readLive(ctx, o)
	}
	if err == nil && o.Node != "" && len(c.Nodes) > 0 && !slices.ContainsFunc(c.Nodes, func(n *corev1.Node) bool { return n.Name == o.Node }) {
		var names []string
		for _, n := range c.Nodes {
			names = append(names, n.Name)
		}
		err = fmt.Errorf("no Node is called %q; did you mean %s?", o.Node, cmp.Or(phrase.Similar(o.Node, names), names[0]))
	}
	return c, err
}

// readLive lists the objects of a live cluster.
func readLive(ctx context.Context, o Options) (*Cluster, error) {
	cfg, err := o.Connect()
	if err != nil {
		return nil, err
	}
	source, err := controllers.ClusterSource(cfg, o.Node)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", o.Kubeconfig, err)
	}
	c, err := list(ctx, source)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: the server gave no full list: %w", o.Kubeconfig, err)
	}
	limited, cancel := context.WithTimeout(ctx, firstList)
	defer cancel()
	c.options, c.loaded = o, olderPolicies(limited, cfg)
	return c, nil
}

// list lists the objects of a live cluster.
func list(ctx context.Context, from controllers.Source) (*Cluster, error) {
	limited, cancel := context.WithTimeout(ctx, firstList)
	defer cancel()
	var c Cluster
	err := cmp.Or(
		listInto(limited, from.Pods, &c.Pods), listInto(limited, from.Namespaces, &c.Namespaces),
		listInto(limited, from.Policies, &c.Policies), listInto(limited, from.ClusterPolicies, &c.ClusterPolicies),
		listInto(limited, from.AllNodes, &c.Nodes),
	)
	if late, is := errors.AsType[net.Error](err); ctx.Err() == nil && is && late.Timeout() {
		return nil, fmt.Errorf("no answer within %s", firstList)
	}
	return &c, err
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

// World reads the objects like Read, and returns them as a world. Its Nodes do not include nodes with the
// Linux label, or, with Options.Node, any other node.
func World(ctx context.Context, o Options) (whatif.World, error) {
	c, err := Read(ctx, o)
	if err != nil {
		return whatif.World{}, err
	}
	w := c.world()
	for _, p := range c.Pods {
		if warning, is := manifest.OnlyIPv6(p); is && o.Kubeconfig != "" {
			c.loaded = append(c.loaded, warning)
		}
	}
	for _, warning := range c.loaded {
		if manifest.Misleads(warning) {
			w.Warnings = append(w.Warnings, warning)
		}
	}
	return w, nil
}

// world converts the objects to the types of the dataplane.
func (c *Cluster) world() whatif.World {
	w := whatif.World{Now: time.Now(), FromManifests: c.options.Kubeconfig == "", OthersLabels: map[string]map[string]string{}, Makers: c.Makers}
	for _, n := range c.Nodes {
		w.Peers = append(w.Peers, controllers.ClusterNode(n))
		if ofInterest(n) {
			w.Nodes = append(w.Nodes, whatif.Node{Name: n.Name, Addrs: controllers.NodeAddrs(n)})
		}
	}
	for _, p := range c.Pods {
		pod := whatif.Pod{Pod: controllers.PodFrom(p, p.Spec.NodeName), Node: p.Spec.NodeName, Owners: Owners(p, c.Makers)}
		pod.Fit()
		w.Pods = append(w.Pods, pod)
	}
	for _, n := range c.Namespaces {
		ns := desired.Namespace{Name: n.Name, Labels: n.Labels}
		if !w.FromManifests {
			w.OthersLabels[ns.Name] = othersLabels(n)
		}
		ns.Fit()
		w.Namespaces = append(w.Namespaces, ns)
	}
	w.Policies, w.ClusterPolicies = c.Policies, c.ClusterPolicies
	w.AddNodes()
	if c.options.Node != "" {
		w.Nodes = slices.DeleteFunc(w.Nodes, func(n whatif.Node) bool { return n.Name != c.options.Node })
	}
	return w
}

// nodeAddrs returns the addresses of the node that is simulated, or of all nodes.
func (c *Cluster) nodeAddrs() []netip.Addr {
	var out []netip.Addr
	for _, n := range c.Nodes {
		if c.options.Node == "" || n.Name == c.options.Node {
			out = append(out, controllers.NodeAddrs(n)...)
		}
	}
	return out
}

// nodeAddrsOfPods maps pods to the addresses of their node, for manifests that have both.
func (c *Cluster) nodeAddrsOfPods() map[string][]netip.Addr {
	nodes, out := map[string][]netip.Addr{}, map[string][]netip.Addr{}
	if c.options.Kubeconfig != "" {
		return out
	}
	for _, n := range c.Nodes {
		nodes[n.Name] = controllers.NodeAddrs(n)
	}
	for _, p := range c.Pods {
		if addrs := nodes[p.Spec.NodeName]; len(addrs) > 0 {
			out[p.Namespace+"/"+p.Name] = addrs
		}
	}
	return out
}

// ofInterest reports whether WinNPM may run on a node: it has no Linux label.
func ofInterest(n *corev1.Node) bool { return n.Labels[corev1.LabelOSStable] != string(corev1.Linux) }

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
