package controllers

import (
	"k8s.io/client-go/tools/cache"
)

// budgetStore is a store whose objects share one budget per namespace: the largest objects are
// closed until the others fit. The choice depends only on the objects in the cluster, not on the
// order of events. The text of a closed object is dropped, so when there is room again, the store
// requests a new list of all objects.
type budgetStore[T any] struct {
	*store[*T]
	again func() // requests a new list; it does not wait for it

	shares *shares[T] // the objects in the store; only the reflector's goroutine uses it
}

func newBudgetStore[T any](k kept[*T], s sharing[T], enqueue func(Key)) *budgetStore[T] {
	return &budgetStore[T]{store: newStore(k, enqueue), again: func() {}, shares: newShares(s)}
}

// Add implements cache.ReflectorStore.
func (s *budgetStore[T]) Add(obj any) error {
	v, err := s.value(obj)
	if err != nil {
		return err
	}
	if old, known := s.get(s.kept.nameOf(v)); known && s.kept.same(old, v) {
		return nil
	}
	closing, opens := s.shares.set(v)
	for _, c := range closing {
		is := s.shares.shutting(c)
		if s.shares.swap(is); c == v {
			v = is
		} else if err := s.store.Add(is); err != nil {
			return err
		}
	}
	if opens {
		s.again()
	}
	if err := s.store.Add(v); err != nil {
		return err
	}
	if is, ok := s.get(s.kept.nameOf(v)); ok { // the store keeps an equal older object instead of v
		s.shares.swap(is)
	}
	return nil
}

// Update implements cache.ReflectorStore.
func (s *budgetStore[T]) Update(obj any) error { return s.Add(obj) }

// Delete implements cache.ReflectorStore.
func (s *budgetStore[T]) Delete(obj any) error {
	name, err := cache.ObjectToName(obj)
	if err != nil {
		return err
	}
	if s.shares.remove(name) {
		s.again()
	}
	return s.store.Delete(obj)
}

// Replace implements cache.ReflectorStore. The list has all objects of the cluster.
func (s *budgetStore[T]) Replace(list []any, version string) error {
	all := newShares(s.shares.sharing)
	for i := range list {
		v, err := s.value(list[i])
		if err != nil {
			return err
		}
		list[i] = v
		all.shutNew(v)
	}
	if err := s.store.Replace(list, version); err != nil {
		return err
	}
	s.shares = newShares(s.shares.sharing)
	for _, v := range s.all() {
		s.shares.set(v) // closes nothing: shutNew has closed what is over the budget
	}
	if all.idle() {
		s.again()
	}
	return nil
}

// Transformer implements cache.TransformingStore. It returns a function for the objects of one
// list. The function changes the objects in place, because no other goroutine has them yet: it
// drops the text of the objects that are over the budget of their namespace.
func (s *budgetStore[T]) Transformer() cache.TransformFunc {
	listed := newShares(s.shares.sharing)
	return func(obj any) (any, error) {
		v, err := s.value(obj)
		if err == nil {
			listed.shutNew(v)
		}
		return v, err
	}
}
