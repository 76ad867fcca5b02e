// Package cluster is a cluster under attack, as its API server shows it: 10,000
// pods of honest tenants, one of them the victim, and what one hostile tenant
// writes. What it serves is made anew each time that somebody asks, so that
// nothing of it is in the memory that a test measures.
package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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

// kinds are an empty object and an empty list of each kind.
var kinds = map[Kind]struct {
	object message
	list   runtime.Object
}{
	Pods:       {&corev1.Pod{}, &corev1.PodList{}},
	Namespaces: {&corev1.Namespace{}, &corev1.NamespaceList{}},
	Policies:   {&networkingv1.NetworkPolicy{}, &networkingv1.NetworkPolicyList{}},
	Nodes:      {&corev1.Node{}, &corev1.NodeList{}},
}

// message is an object that has a form on the wire.
type message interface {
	runtime.Object
	metav1.Object
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
	Size() int
}

// Known reports whether the API has the kind.
func (k Kind) Known() bool { return kinds[k].object != nil }

// empty returns a new object of the kind.
func (k Kind) empty() message { return kinds[k].object.DeepCopyObject().(message) }

// Object is how an object of the API server is made. Make returns the same
// content each time and shares nothing between two calls.
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

// decoded returns the object of an event as a client has it that read it from the
// wire: no two of its strings share memory.
func (e event) decoded() message {
	made := e.object.Make()
	made.SetNamespace(e.object.Namespace)
	made.SetName(e.object.Name)
	made.SetResourceVersion(fmt.Sprint(e.version))
	text, err := made.Marshal()
	if err != nil {
		panic("BUG: a message always encodes: " + err.Error())
	}
	out := e.object.Kind.empty()
	if err := out.Unmarshal(text); err != nil {
		panic("BUG: an encoded object decodes: " + err.Error())
	}
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

// Put writes objects and tells those who watch.
func (s *Server) Put(objects ...Object) { s.change(watch.Modified, objects) }

// Delete removes objects and tells those who watch.
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

// since returns the changes of a kind after a version, the version now, and a channel
// that the next change closes.
func (s *Server) since(k Kind, version int) (events []event, now int, more <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.log[version:] {
		if e.object.Kind == k {
			events = append(events, e)
		}
	}
	return events, len(s.log), s.more
}

// there returns the objects that events leave, each as its addition.
func there(events []event) []event {
	left := map[string]event{}
	for _, e := range events {
		key := e.object.Namespace + "/" + e.object.Name
		if e.what == watch.Deleted {
			delete(left, key)
		} else {
			left[key] = event{watch.Added, e.object, e.version}
		}
	}
	return slices.SortedFunc(maps.Values(left), func(a, b event) int { return a.version - b.version })
}

// List returns all objects of a kind.
func (s *Server) List(k Kind) runtime.Object {
	events, now, _ := s.since(k, 0)
	var items []runtime.Object
	for _, e := range there(events) {
		items = append(items, e.decoded())
	}
	list := kinds[k].list.DeepCopyObject()
	if err := meta.SetList(list, items); err != nil {
		panic("BUG: a list takes its kind: " + err.Error())
	}
	list.(metav1.ListInterface).SetResourceVersion(fmt.Sprint(now))
	return list
}

// Send sends the changes of a kind after a version to one client until it stops; with
// initial first all objects, and the bookmark that ends them.
func (s *Server) Send(k Kind, version int, initial bool, out chan<- watch.Event, stop <-chan struct{}) {
	defer close(out)
	if initial {
		version = 0
	}
	for ; ; initial = false {
		events, now, more := s.since(k, version)
		if initial {
			end := Object{Kind: k, Make: func() message {
				o := k.empty()
				o.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
				return o
			}}
			events = append(there(events), event{watch.Bookmark, end, now})
		}
		for _, e := range events {
			select {
			case out <- watch.Event{Type: e.what, Object: e.decoded()}:
			case <-stop:
				return
			}
		}
		version = now
		select {
		case <-more:
		case <-stop:
			return
		}
	}
}

// Source is the server for an agent in the same process, without a network
// between them. Objects come decoded from their form on the wire.
func (s *Server) Source() controllers.Source {
	return controllers.Source{Pods: s.source(Pods), Namespaces: s.source(Namespaces), Policies: s.source(Policies), Nodes: s.source(Nodes)}
}

// source lists and watches one kind. A watch ends when its time is over, as with an API server.
func (s *Server) source(k Kind) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) { return s.List(k), nil },
		WatchFuncWithContext: func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
			out := make(chan watch.Event)
			w := watch.NewProxyWatcher(out)
			if options.TimeoutSeconds != nil {
				time.AfterFunc(time.Duration(*options.TimeoutSeconds)*time.Second, w.Stop)
			}
			version, _ := strconv.Atoi(options.ResourceVersion) // none: 0
			go s.Send(k, version, options.SendInitialEvents != nil && *options.SendInitialEvents, out, w.StopChan())
			return w, nil
		},
	}
}
