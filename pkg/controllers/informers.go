package controllers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/watchlist"
	"k8s.io/klog/v2"

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
}

// informer keeps one kind of object in a store and reports what changes.
type informer struct {
	source     *tracked
	store      cache.Store
	controller cache.Controller
}

// newInformer returns an informer that is not running yet. Its handler runs in
// the informer's own goroutine, so the informer is synced only after the
// handler has seen the whole first list.
func newInformer(kind Kind, lw cache.ListerWatcher, object runtime.Object, logger klog.Logger, enqueue func(Key)) *informer {
	source := &tracked{kind: kind, ListerWatcher: lw, inner: cache.ToListerWatcherWithContext(lw), heard: time.Now()}
	store, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		Logger:        &logger,
		ListerWatcher: source,
		ObjectType:    object,
		Transform:     trim,
		Handler:       handler(kind, enqueue),
	})
	return &informer{source: source, store: store, controller: controller}
}

// informers are those of all kinds.
type informers struct {
	pods, namespaces, policies, nodes *informer
}

func newInformers(s Source, logger klog.Logger, enqueue func(Key)) informers {
	return informers{
		pods:       newInformer(KindPod, s.Pods, &corev1.Pod{}, logger, enqueue),
		namespaces: newInformer(KindNamespace, s.Namespaces, &corev1.Namespace{}, logger, enqueue),
		policies:   newInformer(KindPolicy, s.Policies, &networkingv1.NetworkPolicy{}, logger, enqueue),
		nodes:      newInformer(KindNode, s.Nodes, &corev1.Node{}, logger, enqueue),
	}
}

func (i informers) all() []*informer {
	return []*informer{i.pods, i.namespaces, i.policies, i.nodes}
}

// lookup returns the object of a key as it is now.
func lookup[T any](i *informer, key Key) (T, bool) {
	obj, exists, err := i.store.GetByKey(key.storeKey())
	o, ok := obj.(T)
	return o, exists && err == nil && ok
}

// Policy returns a NetworkPolicy as it was last seen; false when there is none.
// It belongs to the informer and must not be changed.
func (c *Controller) Policy(key policy.Key) (*networkingv1.NetworkPolicy, bool) {
	return lookup[*networkingv1.NetworkPolicy](c.informers.policies, Key{Kind: KindPolicy, Namespace: key.Namespace, Name: key.Name})
}

// handler enqueues keys and does nothing else.
func handler(kind Kind, enqueue func(Key)) cache.ResourceEventHandler {
	add := func(obj any) {
		if key, ok := keyOf(kind, obj); ok {
			enqueue(key)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: add,
		UpdateFunc: func(old, obj any) {
			// A relist reports every object; most did not change.
			if !sameVersion(old, obj) {
				add(obj)
			}
		},
		DeleteFunc: add,
	}
}

// sameVersion reports whether two states of an object are the same one.
func sameVersion(a, b any) bool {
	ma, errA := meta.Accessor(a)
	mb, errB := meta.Accessor(b)
	if errA != nil || errB != nil {
		return false
	}
	return ma.GetResourceVersion() != "" && ma.GetResourceVersion() == mb.GetResourceVersion() && ma.GetUID() == mb.GetUID()
}

// tracked remembers how the last request to a source ended. A watch that the
// server ends is no error; a request that fails is.
type tracked struct {
	cache.ListerWatcher // without a context: the reflector asks for it and does not call it
	kind                Kind
	inner               cache.ListerWatcherWithContext

	mu    sync.Mutex // guards following
	last  error
	heard time.Time // when the server last said something; at first of the start
}

var _ cache.ListerWatcherWithContext = &tracked{}

// ListWithContext implements cache.ListerWithContext.
func (t *tracked) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list, err := t.inner.ListWithContext(ctx, options)
	t.note("list", err)
	return list, err
}

// WatchWithContext implements cache.WatcherWithContext.
func (t *tracked) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	w, err := t.inner.WatchWithContext(ctx, options)
	t.note("watch", err)
	if options.SendInitialEvents != nil && utilnet.IsConnectionRefused(err) {
		return nil, opaque{err}
	}
	if err != nil {
		return w, err
	}
	return newHeardWatch(w, t.hear), nil
}

// opaque hides what an error is. A reflector that sees a refused connection
// when it streams its first list backs off in a sleep of up to a minute that no
// context ends (reflector.go, watchList of v0.36); of any other error it tries
// a plain list, and backs off properly after that.
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
		return
	}
	t.heard = time.Now()
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
