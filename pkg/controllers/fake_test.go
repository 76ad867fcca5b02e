package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/state"
)

// apiServer is a list-watch over objects of one type. Its watchers can be cut
// off, so that a client misses events and has to list again.
type apiServer struct {
	newList func([]runtime.Object) runtime.Object

	mu      sync.Mutex // guards following
	objects map[cache.ObjectName]runtime.Object
	version int
	watches map[*apiWatch]bool
	lists   int
	down    error
}

func serve[T runtime.Object](newList func() runtime.Object, objects ...T) *apiServer {
	s := &apiServer{
		newList: func(items []runtime.Object) runtime.Object {
			list := newList()
			if err := meta.SetList(list, items); err != nil {
				panic(err)
			}
			return list
		},
		objects: map[cache.ObjectName]runtime.Object{},
		watches: map[*apiWatch]bool{},
	}
	for _, o := range objects {
		s.set(o)
	}
	return s
}

// newEmpty returns what makes an empty list of the server's type.
func (s *apiServer) newEmpty() func() runtime.Object {
	return func() runtime.Object { return s.newList(nil) }
}

func (s *apiServer) IsWatchListSemanticsUnSupported() bool { return true }

func (s *apiServer) List(options metav1.ListOptions) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return nil, s.down
	}
	s.lists++
	var items []runtime.Object
	for _, o := range s.objects {
		items = append(items, o.DeepCopyObject())
	}
	list := s.newList(items)
	acc, err := meta.ListAccessor(list)
	if err != nil {
		return nil, err
	}
	acc.SetResourceVersion(fmt.Sprint(s.version))
	return list, nil
}

func (s *apiServer) Watch(options metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return nil, s.down
	}
	w := &apiWatch{server: s, events: make(chan watch.Event, 20000)}
	s.watches[w] = true
	if options.TimeoutSeconds != nil {
		w.end = time.AfterFunc(time.Duration(*options.TimeoutSeconds)*time.Second, func() {
			w.Stop()
			close(w.events)
		})
	}
	return w, nil
}

// set writes an object and tells the watchers.
func (s *apiServer) set(o runtime.Object) { s.change(o, watch.Modified, true) }

// remove deletes an object and tells the watchers.
func (s *apiServer) remove(o runtime.Object) { s.change(o, watch.Deleted, true) }

func (s *apiServer) change(o runtime.Object, event watch.EventType, tell bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, err := cache.ObjectToName(o)
	if err != nil {
		panic(err)
	}
	s.version++
	o = o.DeepCopyObject()
	acc, err := meta.Accessor(o)
	if err != nil {
		panic(err)
	}
	acc.SetResourceVersion(fmt.Sprint(s.version))
	if event == watch.Deleted {
		delete(s.objects, name)
	} else {
		s.objects[name] = o
	}
	if tell {
		for w := range s.watches {
			w.events <- watch.Event{Type: event, Object: o.DeepCopyObject()}
		}
	}
}

// cut ends every watch as a server does whose history was compacted.
func (s *apiServer) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := &metav1.Status{Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired, Message: "too old resource version"}
	for w := range s.watches {
		w.events <- watch.Event{Type: watch.Error, Object: gone}
	}
}

// endWatches ends every watch as a server does that closes the connection.
func (s *apiServer) endWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		if w.end != nil {
			w.end.Stop()
		}
		delete(s.watches, w)
		close(w.events)
	}
}

func (s *apiServer) setDown(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = err
}

// listed returns how often the objects were listed.
func (s *apiServer) listed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists
}

type apiWatch struct {
	server *apiServer
	events chan watch.Event
	end    *time.Timer
}

func (w *apiWatch) ResultChan() <-chan watch.Event { return w.events }

func (w *apiWatch) Stop() {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	delete(w.server.watches, w)
	if w.end != nil {
		w.end.Stop()
	}
}

// cluster is the whole API server.
type cluster struct {
	pods, namespaces, policies, nodes *apiServer
}

func newCluster(pods ...*corev1.Pod) *cluster {
	return &cluster{
		pods:       serve(func() runtime.Object { return &corev1.PodList{} }, pods...),
		namespaces: serve(func() runtime.Object { return &corev1.NamespaceList{} }, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x"}}),
		policies: serve(func() runtime.Object { return &networkingv1.NetworkPolicyList{} },
			&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "deny"}}),
		nodes: serve(func() runtime.Object { return &corev1.NodeList{} }, newNode("n1", "10.9.0.1")),
	}
}

func (c *cluster) source() Source {
	return Source{Pods: c.pods, Namespaces: c.namespaces, Policies: c.policies, Nodes: c.nodes}
}

func newPod(name, ip string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "x", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": name},
			Annotations: map[string]string{"note": "long"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}},
		},
		Spec:   corev1.PodSpec{NodeName: "n1"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip},
	}
}

// newRemotePod returns a pod of another node.
func newRemotePod(name, ip string) *corev1.Pod {
	p := newPod(name, ip)
	p.Spec.NodeName = "n2"
	return p
}

func newNode(name string, ips ...string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, ip := range ips {
		node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
	}
	return node
}

// recorder is an Applier that keeps what it was given.
type recorder struct {
	mu      sync.Mutex // guards following; not held while hang lasts
	applied []applied
	answer  func(n int) (state.Report, error) // of the n-th call, from 1
	hang    chan struct{}                     // a call waits until it is closed
	stuck   bool                              // every call waits for ctx
}

type applied struct {
	at   time.Duration // since the start
	len  int
	pods map[desired.PodKey]*desired.Pod

	clusters map[string]*v1alpha2.ClusterNetworkPolicy
	nodes    map[string]*state.NodeDump
}

var start = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // of every synctest bubble

func (r *recorder) ApplyDataplane(ctx context.Context, tx *dataplane.Transaction) (state.Report, error) {
	r.mu.Lock()
	a := applied{
		at: time.Since(start), len: tx.Len(), pods: maps.Clone(tx.Pods), clusters: maps.Clone(tx.ClusterPolicies), nodes: maps.Clone(tx.Nodes),
	}
	r.applied = append(r.applied, a)
	n, hang := len(r.applied), r.hang
	r.mu.Unlock()
	if r.stuck {
		<-ctx.Done()
		return state.Report{}, ctx.Err()
	}
	if hang != nil {
		select {
		case <-hang:
		case <-ctx.Done():
			return state.Report{}, ctx.Err()
		}
	}
	if r.answer != nil {
		return r.answer(n)
	}
	return state.Report{Generation: uint64(n)}, nil
}

func (r *recorder) calls() []applied {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]applied(nil), r.applied...)
}

func (r *recorder) setHang(hang chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hang = hang
}

var errDown = errors.New("connection refused")

// run starts a controller in a synctest bubble, waits until it is quiet, plays
// the test, and checks that everything it started ends and that no object of
// the informers was changed.
func run(t *testing.T, cfg Config, play func(t *testing.T, c *Controller)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { inBubble(t, cfg, play) })
}

// firstApplied has a configuration tell when the first transaction succeeded.
func firstApplied(cfg *Config) <-chan struct{} {
	done := make(chan struct{})
	var once sync.Once
	cfg.OnApplied = func(a Applied) {
		if a.Err == nil {
			once.Do(func() { close(done) })
		}
	}
	return done
}

// pass lets time pass in a bubble, and waits until nothing runs.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// inBubble is run for a test that makes channels of the bubble itself.
func inBubble(t *testing.T, cfg Config, play func(t *testing.T, c *Controller)) {
	t.Helper()
	cfg.Logger = klog.Logger{}
	c := New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	defer func() { cancel(); <-done }() // a failed test would move the bubble's clock for good
	go func() {
		defer close(done)
		c.Run(ctx)
	}()
	synctest.Wait()
	before := snapshot(c)

	play(t, c)

	for value, was := range before {
		require.Equal(t, was, text(value), "a value of the informers was changed")
	}
	cancel()
	<-done
}

// snapshot remembers every value that the informers keep and how it reads.
func snapshot(c *Controller) map[any]string {
	out := map[any]string{}
	remember(out, c.pods)
	remember(out, c.namespaces)
	for _, p := range c.policies.all() {
		out[p.object] = text(p.object)
	}
	remember(out, c.nodes)
	for _, p := range c.clusters.all() {
		out[p.object] = text(p.object)
	}
	return out
}

func remember[O metav1.Object, T any](out map[any]string, s *store[O, T]) {
	for _, v := range s.all() {
		out[v] = text(v)
	}
}

func text(value any) string {
	out, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(out)
}
