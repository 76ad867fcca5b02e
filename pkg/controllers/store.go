package controllers

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/winnpm/winnpm/pkg/desired"
)

// kept says what a store keeps of the objects of one kind.
type kept[O metav1.Object, T any] struct {
	kind Kind
	// of returns what is kept of an object, or nil if the object is of another kind.
	of func(O) *T
	// same reports whether a change from one to the other is of no interest.
	same func(a, b *T) bool

	// limit is what the objects of a namespace may cost together; 0 means any amount.
	limit int
	// size returns the size of an object. An object of size 0 does not count and is never closed.
	size func(*T) int
	// shut returns a closed copy of an object, without its text.
	shut func(*T) *T
	// gone is called with the last state of a deleted object, before a reader can miss the object. It may be
	// nil.
	gone func(name cache.ObjectName, last *T)
}

// store has the current state of all objects of one kind. An informer fills it. The values are
// immutable, so readers may keep them. The store reports only objects that changed: most events,
// and nearly all objects of a repeated list, bring no change.
//
// If the objects of a namespace are over their limit, all of them close. A closed object has no
// text, so when the namespace is within the limit again, the objects stay closed until the next
// list. So what closes depends on the objects in the cluster, not on the order of events.
type store[O metav1.Object, T any] struct {
	kept[O, T]
	changed func(key ObjectKey, was, is *T) // called after a change; was is nil for a new object, is for a deleted one

	mu sync.RWMutex // guards values; not held during any callback
	// Only the informer's goroutine writes values, so it reads them without mu.
	values map[cache.ObjectName]*T

	// Only the informer's goroutine uses the fields below.
	sums   map[string]int  // size of the objects, by namespace
	closed map[string]bool // namespaces whose objects were closed since the last list
}

// objects is a store for an informer, which does not need the type of its values.
type objects interface {
	// apply stores or deletes the object of an event. It reports whether a list would now open closed
	// objects.
	apply(event watch.Event) (room bool, err error)
	// list begins a list. The caller passes each object to add, and then calls end, unless the list
	// failed. end deletes the objects that were not added.
	list() (add func(runtime.Object) error, end func())
}

func newStore[O metav1.Object, T any](k kept[O, T], changed func(key ObjectKey, was, is *T)) *store[O, T] {
	return &store[O, T]{kept: k, changed: changed, values: map[cache.ObjectName]*T{}, sums: map[string]int{}, closed: map[string]bool{}}
}

// get returns the value of a name, or nil.
func (s *store[O, T]) get(name cache.ObjectName) *T {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.values[name]
}

// all returns every value.
func (s *store[O, T]) all() []*T {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(maps.Values(s.values))
}

func (s *store[O, T]) apply(event watch.Event) (room bool, err error) {
	name, v, err := s.value(event.Object)
	switch {
	case err != nil:
	case event.Type != watch.Deleted:
		s.put(name, s.values[name], s.count(name, v))
	case s.values[name] != nil:
		s.count(name, nil)
		s.put(name, v, nil) // the event of a deletion has the last state
	}
	for namespace := range s.closed {
		room = room || s.sums[namespace] <= s.limit
	}
	return room, err
}

// put replaces the value of a name, nil for none, and calls changed unless both values are the
// same.
func (s *store[O, T]) put(name cache.ObjectName, was, is *T) {
	if was != nil && is != nil && s.same(was, is) {
		return // readers may keep using the old value
	}
	if is == nil && s.gone != nil {
		s.gone(name, was)
	}
	s.mu.Lock()
	if is != nil {
		s.values[name] = is
	} else {
		delete(s.values, name)
	}
	s.mu.Unlock()
	s.changed(ObjectKey{s.kind, name}, was, is)
}

// count counts the new value of an object, nil for none, against the limit of its namespace. It
// returns the value, or its closed copy if the namespace is closed.
func (s *store[O, T]) count(name cache.ObjectName, v *T) *T {
	if s.limit == 0 {
		return v
	}
	namespace := name.Namespace
	size := 0
	if v != nil {
		size = s.size(v)
	}
	s.sums[namespace] += size
	if was := s.values[name]; was != nil {
		s.sums[namespace] -= s.size(was)
	}
	if s.sums[namespace] == 0 {
		delete(s.sums, namespace)
	}
	if s.sums[namespace] > s.limit && !s.closed[namespace] {
		s.closed[namespace] = true
		for other, o := range s.values {
			if other.Namespace == namespace && other != name && s.size(o) > 0 {
				s.put(other, o, s.shut(o))
			}
		}
	}
	if s.closed[namespace] && size > 0 {
		v = s.shut(v)
	}
	return v
}

func (s *store[O, T]) list() (add func(runtime.Object) error, end func()) {
	values, sums := map[cache.ObjectName]*T{}, map[string]int{}
	over := func(name cache.ObjectName, v *T) bool {
		return s.limit > 0 && sums[name.Namespace] > s.limit && s.size(v) > 0
	}
	add = func(object runtime.Object) error {
		name, v, err := s.value(object)
		if err != nil {
			return err
		}
		if s.limit > 0 {
			sums[name.Namespace] += s.size(v)
		}
		if over(name, v) {
			v = s.shut(v) // frees the text before the next object is decoded
		}
		values[name] = v
		return nil
	}
	end = func() {
		s.sums, s.closed = sums, map[string]bool{}
		for name, v := range values {
			if over(name, v) {
				s.closed[name.Namespace] = true
				values[name] = s.shut(v)
			}
		}
		for name, was := range s.values { // deletions first: a new object may have the address of a deleted one
			if values[name] == nil {
				s.put(name, was, nil)
			}
		}
		for name, v := range values {
			s.put(name, s.values[name], v)
		}
	}
	return add, end
}

// value returns the name of an object and its value in the store.
func (s *store[O, T]) value(object runtime.Object) (cache.ObjectName, *T, error) {
	if o, ok := object.(O); ok {
		if v := s.of(o); v != nil {
			return cache.ObjectName{Namespace: o.GetNamespace(), Name: o.GetName()}, v, nil
		}
	}
	return cache.ObjectName{}, nil, fmt.Errorf("unexpected %T in the store of %s", object, s.kind)
}

func keptNamespaces() kept[*corev1.Namespace, desired.Namespace] {
	return kept[*corev1.Namespace, desired.Namespace]{
		kind: KindNamespace,
		of: func(o *corev1.Namespace) *desired.Namespace {
			ns := &desired.Namespace{Name: o.Name, Labels: o.Labels}
			ns.Fit()
			return ns
		},
		same: (*desired.Namespace).Same,
	}
}
