package controllers

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/client-go/tools/cache"
)

// kept says what is kept of the objects of one kind.
type kept[T any] struct {
	kind Kind
	// of returns what is kept of an object. Applied to what it returned it returns the
	// same. false: the object is of another kind. A reflector that streams its first list
	// calls it for each object at once, so the whole objects are never in memory together.
	of     func(obj any) (T, bool)
	nameOf func(T) cache.ObjectName
	// same reports whether a change from one to the other is of no interest.
	same func(a, b T) bool
}

// store has the current state of all objects of one kind. A reflector fills it. The values are
// immutable, so readers may keep them. The store enqueues only objects that changed: most events,
// and nearly all objects of a repeated list, bring no change.
type store[T any] struct {
	kept    kept[T]
	enqueue func(Key)
	// gone is called with the last values of a deleted object, before its key is enqueued. It may
	// be nil.
	gone   func(T)
	synced chan struct{} // closed after the first list was stored and enqueued
	first  sync.Once

	mu sync.RWMutex // guards values; not held during any callback
	// Only the reflector's goroutine writes values, so it reads them without mu.
	values map[cache.ObjectName]T
}

var (
	_ cache.ReflectorStore    = &store[int]{}
	_ cache.TransformingStore = &store[int]{}
)

func newStore[T any](k kept[T], enqueue func(Key)) *store[T] {
	return &store[T]{kept: k, enqueue: enqueue, synced: make(chan struct{}), values: map[cache.ObjectName]T{}}
}

// get returns the value of a name; false when there is none.
func (s *store[T]) get(name cache.ObjectName) (T, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	v, ok := s.values[name]
	return v, ok
}

// all returns every value.
func (s *store[T]) all() []T {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(maps.Values(s.values))
}

// Add implements cache.ReflectorStore.
func (s *store[T]) Add(obj any) error {
	v, err := s.value(obj)
	if err != nil {
		return err
	}
	name := s.kept.nameOf(v)
	old, known := s.values[name]
	if known && s.kept.same(old, v) {
		return nil // readers may keep using the old value
	}
	s.mu.Lock()
	s.values[name] = v
	s.mu.Unlock()
	s.changed(name)
	return nil
}

// Update implements cache.ReflectorStore.
func (s *store[T]) Update(obj any) error { return s.Add(obj) }

// Delete implements cache.ReflectorStore.
func (s *store[T]) Delete(obj any) error {
	name, err := cache.ObjectToName(obj)
	if err != nil {
		return err
	}
	old, known := s.values[name]
	if !known {
		return nil
	}
	if s.gone != nil {
		s.gone(old)
		if last, err := s.value(obj); err == nil {
			s.gone(last) // the delete event may have a newer state than the store
		}
	}
	s.mu.Lock()
	delete(s.values, name)
	s.mu.Unlock()
	s.changed(name)
	return nil
}

// Replace implements cache.ReflectorStore. The list has all objects of the cluster.
func (s *store[T]) Replace(list []any, _ string) error {
	values := make(map[cache.ObjectName]T, len(list))
	var changed []cache.ObjectName
	for i, obj := range list {
		v, err := s.value(obj)
		if err != nil {
			return err
		}
		list[i] = nil // the store owns the list; dropping a whole object saves memory
		name := s.kept.nameOf(v)
		if old, known := s.values[name]; known && s.kept.same(old, v) {
			v, name = old, s.kept.nameOf(old)
		} else {
			changed = append(changed, name)
		}
		values[name] = v
	}
	for name, old := range s.values {
		if _, still := values[name]; !still {
			if s.gone != nil {
				s.gone(old)
			}
			changed = append(changed, name)
		}
	}
	s.mu.Lock()
	s.values = values
	s.mu.Unlock()
	for _, name := range changed {
		s.changed(name)
	}
	s.first.Do(func() { close(s.synced) })
	return nil
}

// Resync implements cache.ReflectorStore. Nobody asks for it.
func (s *store[T]) Resync() error { return nil }

// Transformer implements cache.TransformingStore.
func (s *store[T]) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) { return s.value(obj) }
}

func (s *store[T]) value(obj any) (T, error) {
	if item, ok := obj.(*keptItem); ok {
		obj = item.value
	}
	v, ok := s.kept.of(obj)
	if !ok {
		return v, fmt.Errorf("unexpected %T in the store of %s", obj, s.kept.kind)
	}
	return v, nil
}

func (s *store[T]) changed(name cache.ObjectName) {
	s.enqueue(Key{Kind: s.kept.kind, Namespace: name.Namespace, Name: name.Name})
}
