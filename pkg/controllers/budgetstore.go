package controllers

import (
	"k8s.io/client-go/tools/cache"
)

// budgetStore is a store whose objects share a limit per namespace. If the objects of a namespace
// are over it together, all of them close. A closed object has no text, so when the namespace is
// within the limit again, the store requests a new list of all objects, and they stay closed until
// it comes. So what closes depends on the objects in the cluster, not on the order of events.
type budgetStore[T any] struct {
	*store[*T]
	sharing[T]
	again func() // requests a new list; it does not wait for it

	// What follows is by namespace, and only the reflector's goroutine uses it.
	sums   map[string]int  // total size of the objects
	closed map[string]bool // the objects were closed after the last list
}

// sharing says how the objects of one kind share a limit.
type sharing[T any] struct {
	limit int
	size  func(*T) int  // 0: the object does not count, and does not close
	shut  func(*T) bool // reports whether the object is closed because its namespace is over the limit
	// shutting returns a closed copy of the object, without its text.
	shutting func(*T) *T
}

func newBudgetStore[T any](k kept[*T], s sharing[T], enqueue func(Key)) *budgetStore[T] {
	return &budgetStore[T]{store: newStore(k, enqueue), sharing: s, again: func() {}, sums: map[string]int{}, closed: map[string]bool{}}
}

// Add implements cache.ReflectorStore.
func (s *budgetStore[T]) Add(obj any) error {
	v, err := s.value(obj)
	if err != nil {
		return err
	}
	name := s.kept.nameOf(v)
	old, known := s.get(name)
	if known && s.kept.same(old, v) {
		return nil
	}
	s.count(name, s.size(v))
	if s.sums[name.Namespace] > s.limit && !s.closed[name.Namespace] {
		s.closed[name.Namespace] = true
		for _, o := range s.all() {
			if other := s.kept.nameOf(o); other.Namespace == name.Namespace && other != name && s.size(o) > 0 {
				if err := s.store.Add(s.shutting(o)); err != nil {
					return err
				}
			}
		}
	}
	if s.closed[name.Namespace] && s.size(v) > 0 {
		v = s.shutting(v)
	}
	return s.store.Add(v)
}

// count replaces the size of an object, and requests a list if a closed namespace is within the
// limit now.
func (s *budgetStore[T]) count(name cache.ObjectName, size int) {
	if old, known := s.get(name); known {
		size -= s.size(old)
	}
	if s.sums[name.Namespace] += size; s.sums[name.Namespace] == 0 {
		delete(s.sums, name.Namespace)
	}
	if s.closed[name.Namespace] && s.sums[name.Namespace] <= s.limit {
		s.again()
	}
}

// Update implements cache.ReflectorStore.
func (s *budgetStore[T]) Update(obj any) error { return s.Add(obj) }

// Delete implements cache.ReflectorStore.
func (s *budgetStore[T]) Delete(obj any) error {
	name, err := cache.ObjectToName(obj)
	if err != nil {
		return err
	}
	s.count(name, 0)
	return s.store.Delete(obj)
}

// Replace implements cache.ReflectorStore. The list has all objects of the cluster.
func (s *budgetStore[T]) Replace(list []any, version string) error {
	sums, closed := map[string]int{}, map[string]bool{}
	for i := range list {
		v, err := s.value(list[i])
		if err != nil {
			return err
		}
		list[i] = v
		namespace := s.kept.nameOf(v).Namespace
		if sums[namespace] += s.size(v); sums[namespace] > s.limit {
			closed[namespace] = true
		}
	}
	for i := range list {
		v := list[i].(*T)
		switch namespace := s.kept.nameOf(v).Namespace; {
		case closed[namespace] && s.size(v) > 0:
			list[i] = s.shutting(v)
		case s.shut(v): // the stream of the list had more objects of the namespace than its end
			closed[namespace] = true
		}
	}
	s.sums, s.closed = sums, closed
	for namespace := range closed {
		if sums[namespace] <= s.limit {
			s.again()
		}
	}
	return s.store.Replace(list, version)
}

// Transformer implements cache.TransformingStore. It returns a function for the objects of one
// list, which drops the text of those that exceed the limit of their namespace.
func (s *budgetStore[T]) Transformer() cache.TransformFunc {
	sums := map[string]int{}
	return func(obj any) (any, error) {
		v, err := s.value(obj)
		if err != nil {
			return nil, err
		}
		namespace := s.kept.nameOf(v).Namespace
		if sums[namespace] += s.size(v); sums[namespace] > s.limit {
			v = s.shutting(v)
		}
		return v, nil
	}
}
