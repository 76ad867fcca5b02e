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
	size func(*T) policy.Size // zero: it takes no room
	// shut reports whether the namespace has no room for an object, whose text was dropped.
	shut func(*T) bool
	// shutting returns the object without its text.
	shutting func(*T) *T
	room     func(sum policy.Size) bool
}

// compare orders the objects of a namespace by what they cost.
func (s sharing[T]) compare(a, b *T) int {
	return cmp.Or(s.size(a).Compare(s.size(b)), cmp.Compare(s.name(a).Name, s.name(b).Name))
}

// shares says which objects of each namespace have room in its budget. Those that
// cost nothing are not among them.
type shares[T any] struct {
	sharing[T]
	byNS map[string]*share[T]
}

// share is the objects of one namespace.
type share[T any] struct {
	byName map[string]*T
	order  []*T        // by what they cost
	open   int         // the first ones, which have room
	sum    policy.Size // of these
}

func newShares[T any](s sharing[T]) *shares[T] { return &shares[T]{s, map[string]*share[T]{}} }

// set replaces the object of the same name. It returns the objects that have to close now
// because there is no room for them, and reports whether there is room for one that is
// closed. It moves at most as many pointers as the namespace has objects.
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
	end := min(before+1, len(of.order)) // what was open is before this, and v may be behind
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

// settle moves the end of those that are open to where it belongs.
func (of *share[T]) settle(s sharing[T]) {
	for ; !s.room(of.sum); of.open-- {
		of.sum = of.sum.Sub(s.size(of.order[of.open-1]))
	}
	for ; of.open < len(of.order) && s.room(of.sum.Add(s.size(of.order[of.open]))); of.open++ {
		of.sum = of.sum.Add(s.size(of.order[of.open]))
	}
}

// opened reports whether an object of a namespace has room that is shut and had none
// when so many were open.
func (s *shares[T]) opened(namespace string, before int) bool {
	of := s.byNS[namespace]
	if of == nil {
		return false
	}
	from := min(max(before-1, 0), of.open) // one that was before may be gone
	return slices.ContainsFunc(of.order[from:of.open], s.shut)
}

// remove takes an object out. It reports whether one has room now that is shut.
func (s *shares[T]) remove(name cache.ObjectName) (opens bool) {
	before := 0
	if of := s.byNS[name.Namespace]; of != nil {
		before = of.open
	}
	s.take(name)
	return s.opened(name.Namespace, before)
}

// take takes an object out.
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

// swap puts an object in the place of one of the same name and size.
func (s *shares[T]) swap(v *T) {
	if of := s.byNS[s.name(v).Namespace]; of != nil && of.byName[s.name(v).Name] != nil {
		at, _ := slices.BinarySearchFunc(of.order, v, s.compare)
		of.byName[s.name(v).Name], of.order[at] = v, v
	}
}

// shutNew is for values that nobody else has yet: those that have no room are shut
// in place.
func (s *shares[T]) shutNew(v *T) {
	closing, _ := s.set(v)
	for _, c := range closing {
		*c = *s.shutting(c)
	}
}

// idle reports whether any object is shut that has room.
func (s *shares[T]) idle() bool {
	for _, of := range s.byNS {
		if slices.ContainsFunc(of.order[:of.open], s.shut) {
			return true
		}
	}
	return false
}
