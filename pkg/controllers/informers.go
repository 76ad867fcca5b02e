package controllers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/watchlist"
	"k8s.io/klog/v2"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/policy"
)

// Source is where the objects come from. Pods, Namespaces and Policies are
// those of the whole cluster; Nodes are those whose addresses count as the
// node's: normally one, selected by name.
type Source struct {
	Pods       cache.ListerWatcher
	Namespaces cache.ListerWatcher
	Policies   cache.ListerWatcher
	Nodes      cache.ListerWatcher

	// ClusterPolicies are the ClusterNetworkPolicies; nil: there are none. A list may
	// fail with ErrNoKind.
	ClusterPolicies cache.ListerWatcher
	// AllNodes are those of the whole cluster. They are watched while a
	// ClusterNetworkPolicy has nodes as peers or an address is contested; nil only where
	// ClusterPolicies is.
	AllNodes cache.ListerWatcher
}

// ErrNoKind is that the API server says that it has no ClusterNetworkPolicies: their CRD
// is not there. No other error says so.
var ErrNoKind = errors.New("the API server has no such kind of objects")

// informer has a store follow one source.
type informer struct {
	source *tracked
	synced <-chan struct{} // closed when the first list is in the store and was enqueued
	run    func(context.Context)
}

// followed is a store behind a Reflector.
type followed interface {
	cache.ReflectorStore
	cache.TransformingStore
}

// newInformer returns an informer that is not running yet.
func newInformer(kind Kind, s followed, synced <-chan struct{}, lw cache.ListerWatcher, logger klog.Logger) *informer {
	source := &tracked{
		kind: kind, ListerWatcher: lw, inner: cache.ToListerWatcherWithContext(lw), keep: s.Transformer, heard: time.Now(),
		again: make(chan struct{}, 1),
	}
	if lacks, ok := lw.(mayLack); ok {
		source.inner = &optional{mayLack: lacks, logger: logger}
	}
	// The store knows which types it takes.
	reflector := cache.NewReflectorWithOptions(source, nil, s, cache.ReflectorOptions{Logger: &logger, Name: kind.String(), TypeDescription: kind.String()})
	return &informer{source: source, synced: synced, run: reflector.RunWithContext}
}

// informers are those of all kinds, and what they keep.
type informers struct {
	pods       *podBudgetStore
	namespaces *store[*desired.Namespace]
	policies   *policyStore
	nodes      *store[*node]
	clusters   *store[*keptCluster]

	all []*informer
}

func newInformers(s Source, node string, b policy.Budgets, logger klog.Logger, enqueue func(Key)) informers {
	i := informers{
		pods:       newPodStore(node, b, enqueue),
		namespaces: newStore(keptNamespaces(), enqueue),
		policies:   newPolicyStore(b, enqueue),
		nodes:      newStore(keptNodes(), enqueue),
		clusters:   newStore(keptClusters(), enqueue),
	}
	policies := newInformer(KindPolicy, i.policies, i.policies.synced, s.Policies, logger)
	i.policies.again = policies.source.relist
	pods := newInformer(KindPod, i.pods, i.pods.synced, s.Pods, logger)
	i.pods.again = pods.source.relist
	i.all = []*informer{
		pods,
		newInformer(KindNamespace, i.namespaces, i.namespaces.synced, s.Namespaces, logger),
		policies,
		newInformer(KindNode, i.nodes, i.nodes.synced, s.Nodes, logger),
	}
	if s.ClusterPolicies != nil {
		i.all = append(i.all, newInformer(KindClusterPolicy, i.clusters, i.clusters.synced, s.ClusterPolicies, logger))
	}
	return i
}

// Policy returns a NetworkPolicy as it was last seen; false when there is none.
// It belongs to the informer and must not be changed.
func (c *Controller) Policy(key policy.Key) (*networkingv1.NetworkPolicy, bool) {
	kept, ok := c.informers.policies.get(cache.ObjectName(key))
	if !ok {
		return nil, false
	}
	return kept.object, true
}

// ClusterPolicy returns a ClusterNetworkPolicy as it was last seen; false when there is
// none. It belongs to the informer and must not be changed.
func (c *Controller) ClusterPolicy(name string) (*v1alpha2.ClusterNetworkPolicy, bool) {
	kept, ok := c.informers.clusters.get(cache.ObjectName{Name: name})
	if !ok {
		return nil, false
	}
	return kept.object, true
}

// tracked remembers how the last request to a source ended. A watch that the
// server ends is no error; a request that fails is.
type tracked struct {
	cache.ListerWatcher // without a context: the reflector asks for it and does not call it
	kind                Kind
	inner               cache.ListerWatcherWithContext
	keep                func() cache.TransformFunc // of the store, for one list
	again               chan struct{}              // full when everything is to be listed once more

	mu       sync.Mutex // guards following
	last     error
	heard    time.Time // when the server last said something of the kind; at first of the start
	relisted time.Time // when relist was last heeded
}

var _ cache.ListerWatcherWithContext = &tracked{}

// ListWithContext implements cache.ListerWithContext.
func (t *tracked) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	var list runtime.Object
	var err error
	if each, ok := t.inner.(itemLister); ok {
		list, err = listKept(ctx, each, options, t.keep())
	} else {
		list, err = t.inner.ListWithContext(ctx, options)
	}
	if t.note("list", err); err == nil {
		t.hear()
	}
	return list, err
}

// WatchWithContext implements cache.WatcherWithContext.
func (t *tracked) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if options.TimeoutSeconds != nil && *options.TimeoutSeconds > maxWatchSeconds {
		seconds := rand.N[int64](maxWatchSeconds/2) + maxWatchSeconds/2
		options.TimeoutSeconds = &seconds
	}
	w, err := t.inner.WatchWithContext(ctx, options)
	t.note("watch", err)
	if options.SendInitialEvents != nil && utilnet.IsConnectionRefused(err) {
		return nil, opaque{err}
	}
	if err != nil {
		return w, err
	}
	return newHeardWatch(w, t, options.TimeoutSeconds), nil
}

// opaque hides what an error is. When a reflector streams its first list and sees a
// refused connection, it backs off in a sleep of up to a minute that no context ends
// (reflector.go, watchList of v0.36). After any other error it tries a plain list, and
// backs off properly after that.
type opaque struct{ error }

// IsWatchListSemanticsUnSupported passes on what the source says of itself.
func (t *tracked) IsWatchListSemanticsUnSupported() bool {
	return watchlist.DoesClientNotSupportWatchListSemantics(t.ListerWatcher)
}

func (t *tracked) note(verb string, err error) {
	if errors.Is(err, context.Canceled) {
		return // we hang up ourselves
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last = err; err != nil {
		t.last = fmt.Errorf("%s %s: %w", verb, t.kind, err)
	}
}

func (t *tracked) hear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heard = time.Now()
}

func (t *tracked) contact() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.heard
}

func (t *tracked) lastError() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}
