package ipsets

import "iter"

// This file is the mirror of hold.go for deny twins. A member that moves from one deny twin to
// another must always be in at least one of them: otherwise a deny rule would miss it, although
// the rule matches it before and after the move. So a member leaves a deny twin that rules name
// only after it has joined every other deny twin that they name. A leaf that HNS rejects stays
// in a nested deny twin until no rule names that twin.
//
// A deny rule may come before an allow rule. So an address joins an allow set only after it has
// joined the deny twins, and leaves the deny twins only after it has left the allow sets.

// lacking reports whether a deny twin lacks members, and the next request may fail to add them.
// With later, the next request writes another set. The cost is linear in the number of members.
func (s *set) lacking(later bool) bool {
	if !s.defined {
		return false
	}
	sure := !later && !s.unknown && !s.refused && s.group == 0 && (!s.nested() || !s.blocked())
	for m := range s.members.joins() {
		if !sure || m.untried() {
			return true
		}
	}
	if !sure {
		for range s.addrs.joins() {
			return true
		}
	}
	return false
}

// gone yields the surplus values of a set: HNS has them, and the desired set does not.
func (s *set) gone() iter.Seq[string] {
	return func(yield func(string) bool) {
		for a := range s.addrs.surplus() {
			if !yield(a.String()) {
				return
			}
		}
		for m := range s.members.surplus() {
			if !yield(m.id) {
				return
			}
		}
	}
}

// staying returns the values that would leave a deny twin and are held back.
func (c *Cache) staying(s *set, h waits) map[string]bool {
	values := map[string]bool{}
	if s.addrs.differs+s.members.differs == 0 || !s.present || !c.seen(s, true) {
		return values
	}
	for a := range s.addrs.surplus() {
		_, joins := h.joining.addrs[a]
		_, leaves := h.leaving.addrs[a]
		if _, nests := h.nesting[a]; joins || leaves || nests {
			values[a.String()] = true
		}
	}
	for m := range s.members.surplus() {
		if _, refused := s.left[m]; refused || h.joining.holds(m) || h.leaving.holds(m) || c.waitsFor(s, m) {
			values[m.id] = true
		}
	}
	return values
}

// Covers reports whether a deny rule may start to name a deny twin: HNS is known to have the set
// with every desired member, and the same holds for the members of a nested set. The set may
// have surplus members. Covers is for deny rules what Closed is for allow rules. The cost is
// linear in the number of members.
func (c *Cache) Covers(n Name) bool {
	s := c.byName[n]
	if s == nil || !s.covers() {
		return false
	}
	for m := range s.members.all(wanted) {
		if !m.covers() {
			return false
		}
	}
	return true
}

func (s *set) covers() bool {
	if !s.defined || !s.present || s.unknown || s.rejects() {
		return false
	}
	for range s.addrs.joins() {
		return false
	}
	for range s.members.joins() {
		return false
	}
	return true
}
