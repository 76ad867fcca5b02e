package controllers

import (
	"k8s.io/client-go/tools/cache"
)

// budgetStore is a store of objects of which those of one namespace share a budget: the
// largest are closed until the others fit. Which ones these are follows from what is in
// the cluster alone. The text of a closed object is not kept, so when there is room again,
// everything is listed once more.
type budgetStore[T any] struct {
	*store[*T]
	again func() // asks for another list; it does not wait

	shares *shares[T] // of what is in the store; the reflector's goroutine's
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
	if is, ok := s.get(s.kept.nameOf(v)); ok { // maybe an older one, of which one is enough
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

// Replace implements cache.ReflectorStore: the list is all there is.
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
		s.shares.set(v) // of which none is to be shut any more
	}
	if all.idle() {
		s.again()
	}
	return nil
}

// Transformer implements cache.TransformingStore. What it returns is for one list,
// whose objects nobody else has yet: the texts that its namespaces have no room for
// are dropped as it comes.
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
