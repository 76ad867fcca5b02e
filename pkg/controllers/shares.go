package controllers

import (
	"slices"

	"k8s.io/client-go/tools/cache"

	"github.com/winnpm/winnpm/pkg/policy"
)

// shares says which policies of each namespace have room in its budget. Those that
// cost nothing are not among them.
type shares struct {
	budgets policy.Budgets
	byNS    map[string]*share
}

// share is the policies of one namespace.
type share struct {
	byName map[string]*keptPolicy
	order  []*keptPolicy // by what they cost
	open   int           // the first ones, which have room
	sum    policy.Size   // of these
}

func newShares(b policy.Budgets) *shares { return &shares{b, map[string]*share{}} }

// set replaces the policy of the same name. It returns the policies that have to close now
// because there is no room for them, and reports whether there is room for one that is
// closed. It moves at most as many pointers as the namespace has policies.
func (s *shares) set(v *keptPolicy) (closing []*keptPolicy, opens bool) {
	namespace := v.object.Namespace
	before := 0
	if of := s.byNS[namespace]; of != nil {
		before = of.open
	}
	s.take(v.name())
	if v.size == (policy.Size{}) {
		return nil, s.opened(namespace, before)
	}
	of := s.byNS[namespace]
	if of == nil {
		of = &share{byName: map[string]*keptPolicy{}}
		s.byNS[namespace] = of
	}
	of.byName[v.object.Name] = v
	at, _ := slices.BinarySearchFunc(of.order, v, (*keptPolicy).compare)
	of.order = slices.Insert(of.order, at, v)
	if at < of.open {
		of.open++
		of.sum = of.sum.Add(v.size)
	}
	of.settle(s.budgets)
	end := min(before+1, len(of.order)) // what was open is before this, and v may be behind
	for _, o := range of.order[of.open:max(of.open, end)] {
		if !o.shut {
			closing = append(closing, o)
		}
	}
	if at >= max(of.open, end) && !v.shut {
		closing = append(closing, v)
	}
	return closing, s.opened(namespace, before) || at < of.open && v.shut
}

// settle moves the end of those that are open to where it belongs.
func (of *share) settle(b policy.Budgets) {
	for ; !b.Room(of.sum); of.open-- {
		of.sum = of.sum.Sub(of.order[of.open-1].size)
	}
	for ; of.open < len(of.order) && b.Room(of.sum.Add(of.order[of.open].size)); of.open++ {
		of.sum = of.sum.Add(of.order[of.open].size)
	}
}

// opened reports whether a policy of a namespace has room that is shut and had none
// when so many were open.
func (s *shares) opened(namespace string, before int) bool {
	of := s.byNS[namespace]
	if of == nil {
		return false
	}
	from := min(max(before-1, 0), of.open) // one that was before may be gone
	return slices.ContainsFunc(of.order[from:of.open], func(o *keptPolicy) bool { return o.shut })
}

// remove takes a policy out. It reports whether one has room now that is shut.
func (s *shares) remove(name cache.ObjectName) (opens bool) {
	before := 0
	if of := s.byNS[name.Namespace]; of != nil {
		before = of.open
	}
	s.take(name)
	return s.opened(name.Namespace, before)
}

// take takes a policy out.
func (s *shares) take(name cache.ObjectName) {
	of := s.byNS[name.Namespace]
	if of == nil || of.byName[name.Name] == nil {
		return
	}
	v := of.byName[name.Name]
	if delete(of.byName, name.Name); len(of.byName) == 0 {
		delete(s.byNS, name.Namespace)
		return
	}
	at, _ := slices.BinarySearchFunc(of.order, v, (*keptPolicy).compare)
	of.order = slices.Delete(of.order, at, at+1)
	if at < of.open {
		of.open--
		of.sum = of.sum.Sub(v.size)
	}
	of.settle(s.budgets)
}

// swap puts a policy in the place of one of the same name and size.
func (s *shares) swap(v *keptPolicy) {
	if of := s.byNS[v.object.Namespace]; of != nil && of.byName[v.object.Name] != nil {
		at, _ := slices.BinarySearchFunc(of.order, v, (*keptPolicy).compare)
		of.byName[v.object.Name], of.order[at] = v, v
	}
}

// shut is set for values that nobody else has yet: those that have no room are shut
// in place.
func (s *shares) shut(v *keptPolicy) {
	closing, _ := s.set(v)
	for _, c := range closing {
		*c = *c.shutting(s.budgets)
	}
}

// idle reports whether any policy is shut that has room.
func (s *shares) idle() bool {
	for _, of := range s.byNS {
		if slices.ContainsFunc(of.order[:of.open], func(v *keptPolicy) bool { return v.shut }) {
			return true
		}
	}
	return false
}
