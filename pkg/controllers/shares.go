package controllers

import (
	"cmp"
	"slices"

	"k8s.io/client-go/tools/cache"

	"github.com/winnpm/winnpm/pkg/policy"
)

// sharing says how the objects of one kind share a budget in their namespace.
type sharing[T any] struct {
	name func(*T) cache.ObjectName
	size func(*T) policy.Size // zero: the object does not count
	// shut reports whether an object is closed because the budget of its namespace has no room for
	// it. A closed object has no text.
	shut func(*T) bool
	// shutting returns a closed copy of the object, without its text.
	shutting func(*T) *T
	// room reports whether objects of this size together are within the budget of a namespace.
	room func(sum policy.Size) bool
}

// compare orders the objects of a namespace by size, then by name.
func (s sharing[T]) compare(a, b *T) int {
	return cmp.Or(s.size(a).Compare(s.size(b)), cmp.Compare(s.name(a).Name, s.name(b).Name))
}

// shares computes which objects of each namespace fit into its budget. It leaves out objects of
// size zero.
type shares[T any] struct {
	sharing[T]
	byNS map[string]*share[T]
}

// share is the objects of one namespace.
type share[T any] struct {
	byName map[string]*T
	order  []*T        // the same objects, smallest first
	open   int         // how many of order, from the start, fit into the budget
	sum    policy.Size // total size of these
}

func newShares[T any](s sharing[T]) *shares[T] { return &shares[T]{s, map[string]*share[T]{}} }

// set adds an object, or replaces the object of the same name. It returns the objects that must be
// closed now because they no longer fit, and reports whether a closed object fits again. Its cost
// is linear in the number of objects in the namespace.
func (s *shares[T]) set(v *T) (closing []*T, opens bool) {
	namespace := s.name(v).Namespace
	before := 0
	if of := s.byNS[namespace]; of != nil {
		before = of.open
	}
	s.take(s.name(v))
	if s.size(v) == (policy.Size{}) {
		return nil, s.opened(namespace, before)
	}
	of := s.byNS[namespace]
	if of == nil {
		of = &share[T]{byName: map[string]*T{}}
		s.byNS[namespace] = of
	}
	of.byName[s.name(v).Name] = v
	at, _ := slices.BinarySearchFunc(of.order, v, s.compare)
	of.order = slices.Insert(of.order, at, v)
	if at < of.open {
		of.open++
		of.sum = of.sum.Add(s.size(v))
	}
	of.settle(s.sharing)
	end := min(before+1, len(of.order)) // all objects that were open are before this index; v may be after it
	for _, o := range of.order[of.open:max(of.open, end)] {
		if !s.shut(o) {
			closing = append(closing, o)
		}
	}
	if at >= max(of.open, end) && !s.shut(v) {
		closing = append(closing, v)
	}
	return closing, s.opened(namespace, before) || at < of.open && s.shut(v)
}

// settle recomputes open and sum after order has changed.
func (of *share[T]) settle(s sharing[T]) {
	for ; !s.room(of.sum); of.open-- {
		of.sum = of.sum.Sub(s.size(of.order[of.open-1]))
	}
	for ; of.open < len(of.order) && s.room(of.sum.Add(s.size(of.order[of.open]))); of.open++ {
		of.sum = of.sum.Add(s.size(of.order[of.open]))
	}
}

// opened reports whether a closed object of a namespace fits now and did not fit before, when the
// first before objects were open.
func (s *shares[T]) opened(namespace string, before int) bool {
	of := s.byNS[namespace]
	if of == nil {
		return false
	}
	from := min(max(before-1, 0), of.open) // one of the objects that were open may have been removed
	return slices.ContainsFunc(of.order[from:of.open], s.shut)
}

// remove removes an object. It reports whether a closed object fits now.
func (s *shares[T]) remove(name cache.ObjectName) (opens bool) {
	before := 0
	if of := s.byNS[name.Namespace]; of != nil {
		before = of.open
	}
	s.take(name)
	return s.opened(name.Namespace, before)
}

// take removes an object without looking for closed objects that fit now.
func (s *shares[T]) take(name cache.ObjectName) {
	of := s.byNS[name.Namespace]
	if of == nil || of.byName[name.Name] == nil {
		return
	}
	v := of.byName[name.Name]
	if delete(of.byName, name.Name); len(of.byName) == 0 {
		delete(s.byNS, name.Namespace)
		return
	}
	at, _ := slices.BinarySearchFunc(of.order, v, s.compare)
	of.order = slices.Delete(of.order, at, at+1)
	if at < of.open {
		of.open--
		of.sum = of.sum.Sub(s.size(v))
	}
	of.settle(s.sharing)
}

// swap replaces the object of the same name by one of the same size.
func (s *shares[T]) swap(v *T) {
	if of := s.byNS[s.name(v).Namespace]; of != nil && of.byName[s.name(v).Name] != nil {
		at, _ := slices.BinarySearchFunc(of.order, v, s.compare)
		of.byName[s.name(v).Name], of.order[at] = v, v
	}
}

// shutNew adds an object and closes, in place, each object that no longer fits. No other goroutine
// may have these objects yet.
func (s *shares[T]) shutNew(v *T) {
	closing, _ := s.set(v)
	for _, c := range closing {
		*c = *s.shutting(c)
	}
}

// idle reports whether a closed object would fit into the budget of its namespace.
func (s *shares[T]) idle() bool {
	for _, of := range s.byNS {
		if slices.ContainsFunc(of.order[:of.open], s.shut) {
			return true
		}
	}
	return false
}
