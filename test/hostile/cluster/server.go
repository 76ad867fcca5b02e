// Package cluster simulates the API server of a cluster under attack: 10,000 pods of honest tenants, one of
// them the victim, and the objects of one hostile tenant. It creates objects anew for each request, so that
// they do not count in the memory that a test measures.
package cluster

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/winnpm/winnpm/pkg/controllers"
)

// Kind is one kind of object, named by its path in the API.
type Kind string

// The kinds that the agent asks for.
const (
	Pods       Kind = "/api/v1/pods"
	Namespaces Kind = "/api/v1/namespaces"
	Policies   Kind = "/apis/networking.k8s.io/v1/networkpolicies"
	Nodes      Kind = "/api/v1/nodes"
)

// kinds has a constructor of an empty object for each kind.
var kinds = map[Kind]func() message{
	Pods:       func() message { return &corev1.Pod{} },
	Namespaces: func() message { return &corev1.Namespace{} },
	Policies:   func() message { return &networkingv1.NetworkPolicy{} },
	Nodes:      func() message { return &corev1.Node{} },
}

// message is an object that can be marshalled for the wire.
type message interface {
	runtime.Object
	metav1.Object
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
	Size() int
}

// Object describes an object of the API server. Make returns equal objects that share no memory.
type Object struct {
	Kind            Kind
	Namespace, Name string
	Make            func() message
}

// event is one change. Its version is the number of changes up to it.
type event struct {
	what    watch.EventType
	object  Object
	version int
}

// decoded returns the object of an event as a client decodes it from the wire, so that its strings share no
// memory.
func (e event) decoded() message {
	made := e.object.Make()
	made.SetNamespace(e.object.Namespace)
	made.SetName(e.object.Name)
	made.SetResourceVersion(fmt.Sprint(e.version))
	text, err := made.Marshal()
	utilruntime.Must(err)
	out := kinds[e.object.Kind]()
	utilruntime.Must(out.Unmarshal(text))
	return out
}

// Server is an API server. Its methods are safe for concurrent use.
type Server struct {
	mu   sync.Mutex    // guards following
	log  []event       // all changes
	more chan struct{} // closed by the next change
}

// NewServer returns a server with these objects.
func NewServer(objects ...Object) *Server {
	s := &Server{more: make(chan struct{})}
	s.change(watch.Added, objects)
	return s
}

// Put writes objects and notifies watchers.
func (s *Server) Put(objects ...Object) { s.change(watch.Modified, objects) }

// Delete removes objects and notifies watchers.
func (s *Server) Delete(objects ...Object) { s.change(watch.Deleted, objects) }

func (s *Server) change(what watch.EventType, objects []Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range objects {
		s.log = append(s.log, event{what, o, len(s.log) + 1})
	}
	close(s.more)
	s.more = make(chan struct{})
}

// since returns the changes of a kind after a version, the current version, and a channel that the next
// change closes.
func (s *Server) since(k Kind, version int) (events []event, now int, more <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	events = slices.DeleteFunc(slices.Clone(s.log[version:]), func(e event) bool { return e.object.Kind != k })
	return events, len(s.log), s.more
}

// there returns the objects that exist after the events, newest first, each as an Added event.
func there(events []event) (left []event) {
	seen := map[string]bool{}
	for _, e := range slices.Backward(events) {
		key := e.object.Namespace + "/" + e.object.Name
		if !seen[key] && e.what != watch.Deleted {
			left = append(left, event{watch.Added, e.object, e.version})
		}
		seen[key] = true
	}
	return left
}

// ListEach calls yield with all objects of a kind, one by one.
func (s *Server) ListEach(k Kind, yield func(runtime.Object) error) (metav1.ListMeta, error) {
	events, version, _ := s.since(k, 0)
	for _, e := range there(events) {
		if err := yield(e.decoded()); err != nil {
			return metav1.ListMeta{}, err
		}
	}
	return metav1.ListMeta{ResourceVersion: fmt.Sprint(version)}, nil
}

// Watch sends the changes of a kind after a version until the timeout, like an API server.
func (s *Server) Watch(k Kind, options metav1.ListOptions) (watch.Interface, error) {
	if kinds[k] == nil {
		return nil, fmt.Errorf("no kind %s", k)
	}
	version, _ := strconv.Atoi(options.ResourceVersion) // none: 0
	events, version, more := s.since(k, version)
	out := make(chan watch.Event)
	w := watch.NewProxyWatcher(out)
	if options.TimeoutSeconds != nil {
		time.AfterFunc(time.Duration(*options.TimeoutSeconds)*time.Second, w.Stop)
	}
	go func() {
		defer close(out)
		for {
			for _, e := range events {
				select {
				case out <- watch.Event{Type: e.what, Object: e.decoded()}:
				case <-w.StopChan():
					return
				}
			}
			select {
			case <-more:
			case <-w.StopChan():
				return
			}
			events, version, more = s.since(k, version)
		}
	}()
	return w, nil
}

// Source returns a source for an agent in the same process, without a network. Objects are decoded from the
// wire format.
func (s *Server) Source() controllers.Source {
	return controllers.Source{Pods: newSource(s, Pods), Namespaces: newSource(s, Namespaces), Policies: newSource(s, Policies), Nodes: newSource(s, Nodes)}
}

// source has the objects of one kind.
type source struct {
	*cache.ListWatch
	server *Server
	kind   Kind
}

func newSource(s *Server, k Kind) source {
	return source{&cache.ListWatch{WatchFuncWithContext: func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
		return s.Watch(k, options)
	}}, s, k}
}

// ListEach lists the objects for an informer.
func (s source) ListEach(_ context.Context, _ metav1.ListOptions, yield func(runtime.Object) error) (metav1.ListMeta, error) {
	return s.server.ListEach(s.kind, yield)
}
