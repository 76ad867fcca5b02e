// Package cluster is a cluster under attack, as its API server shows it: 10,000
// pods of honest tenants, one of them the victim, and what one hostile tenant
// writes. What it serves is made anew each time that somebody asks, so that
// nothing of it is in the memory that a test measures.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/winnpm/winnpm/pkg/controllers"
)

// Kind is one kind of object.
type Kind uint8

// The kinds that the agent asks for.
const (
	Pods Kind = iota
	Namespaces
	Policies
	Nodes
	kinds
)

// message is an object that has a form on the wire.
type message interface {
	runtime.Object
	metav1.Object
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
	Size() int
}

// empty returns a new object of the kind.
func (k Kind) empty() message {
	switch k {
	case Pods:
		return &corev1.Pod{}
	case Namespaces:
		return &corev1.Namespace{}
	case Policies:
		return &networkingv1.NetworkPolicy{}
	default:
		return &corev1.Node{}
	}
}

// Object is how an object of the API server is made. Make returns the same
// content each time and shares nothing between two calls.
type Object struct {
	Kind            Kind
	Namespace, Name string
	Make            func() message
}

// key is unique within a kind.
func (o Object) key() string { return o.Namespace + "/" + o.Name }

// decoded returns the object as a client has it that read it from the wire: no
// two of its strings share memory.
func (o Object) decoded(version int) message {
	made := o.Make()
	made.SetNamespace(o.Namespace)
	made.SetName(o.Name)
	made.SetResourceVersion(fmt.Sprint(version))
	out := o.Kind.empty()
	if err := out.Unmarshal(encode(made)); err != nil {
		panic("BUG: an encoded object decodes: " + err.Error())
	}
	return out
}

// Server is an API server. Its methods are safe for concurrent use.
type Server struct {
	mu      sync.Mutex // guards following
	version int
	objects [kinds]map[string]Object
	watches [kinds]map[*watcher]bool
}

// NewServer returns a server with these objects.
func NewServer(objects ...Object) *Server {
	s := &Server{}
	for k := range kinds {
		s.objects[k], s.watches[k] = map[string]Object{}, map[*watcher]bool{}
	}
	for _, o := range objects {
		s.objects[o.Kind][o.key()] = o
	}
	return s
}

// Put writes objects and tells those who watch.
func (s *Server) Put(objects ...Object) { s.change(watch.Modified, objects) }

// Delete removes objects and tells those who watch.
func (s *Server) Delete(objects ...Object) { s.change(watch.Deleted, objects) }

// Undo takes an attack back: its objects go, and the tenant's namespace is as it was.
func (s *Server) Undo(a Attack) {
	for _, o := range a.Objects {
		if o.Kind == Namespaces {
			s.Put(tenantNamespace())
		} else {
			s.Delete(o)
		}
	}
}

func (s *Server) change(what watch.EventType, objects []Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range objects {
		s.version++
		if what == watch.Deleted {
			delete(s.objects[o.Kind], o.key())
		} else {
			s.objects[o.Kind][o.key()] = o
		}
		for w := range s.watches[o.Kind] {
			w.add(event{what, o, s.version})
		}
	}
}

// event is one event of a watch. Without an Object it ends the first list.
type event struct {
	what    watch.EventType
	object  Object
	version int
}

// watcher has the events that one client was not sent yet.
type watcher struct {
	server *Server
	kind   Kind
	more   chan struct{} // full when there are events that nobody was told of

	mu     sync.Mutex // guards following
	events []event
}

// watch begins a watch with everything that is there.
func (s *Server) watch(k Kind) *watcher {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &watcher{server: s, kind: k, more: make(chan struct{}, 1)}
	for _, key := range slices.Sorted(maps.Keys(s.objects[k])) {
		w.events = append(w.events, event{watch.Added, s.objects[k][key], s.version})
	}
	s.watches[k][w] = true
	w.add(event{what: watch.Bookmark, version: s.version})
	return w
}

func (w *watcher) add(e event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
	select {
	case w.more <- struct{}{}:
	default:
	}
}

// take returns the events so far.
func (w *watcher) take() []event {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.events
	w.events = nil
	return out
}

// end ends the watch.
func (w *watcher) end() {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	delete(w.server.watches[w.kind], w)
}

// bookmark is the object that ends the first list of a kind.
func (k Kind) bookmark(version int) message {
	o := k.empty()
	o.SetResourceVersion(fmt.Sprint(version))
	o.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	return o
}

// Source is the server for an agent in the same process, without a network
// between them. Objects come decoded from their form on the wire.
func (s *Server) Source() controllers.Source {
	return controllers.Source{Pods: s.stream(Pods), Namespaces: s.stream(Namespaces), Policies: s.stream(Policies), Nodes: s.stream(Nodes)}
}

// stream watches one kind. A watch ends when its time is over, as with an API server.
func (s *Server) stream(k Kind) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return nil, errors.New("objects come in a stream")
		},
		WatchFuncWithContext: func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
			out := make(chan watch.Event)
			w := watch.NewProxyWatcher(out)
			if options.TimeoutSeconds != nil {
				time.AfterFunc(time.Duration(*options.TimeoutSeconds)*time.Second, w.Stop)
			}
			go s.send(k, out, w.StopChan())
			return w, nil
		},
	}
}

// send sends a kind to one client until it stops.
func (s *Server) send(k Kind, out chan<- watch.Event, stop <-chan struct{}) {
	from := s.watch(k)
	defer close(out)
	defer from.end()
	for {
		for _, e := range from.take() {
			object := k.bookmark(e.version)
			if e.what != watch.Bookmark {
				object = e.object.decoded(e.version)
			}
			select {
			case out <- watch.Event{Type: e.what, Object: object}:
			case <-stop:
				return
			}
		}
		select {
		case <-from.more:
		case <-stop:
			return
		}
	}
}
