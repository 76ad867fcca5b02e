package ipsets

import "iter"

// The mirror of hold.go, for deny twins: a member that leaves one and joins another has
// to show in one of them all the time, as a rule that denies would let through whom
// neither before nor after it lets through. So a member leaves a deny twin that rules see
// only once it has joined every other one that they see. A leaf that HNS refuses stays in
// a nested twin until no rule sees that.
//
// A rule that denies may stand before one that allows. So an address joins a set that
// allows only once it has joined the deny twins, and leaves these only once it has left the
// sets that allow.

// lacking reports whether a deny twin has members that have to come, and it is not known
// that the next request puts them in; with later, that request is about another set. It
// costs the members.
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

// gone yields the values that HNS has in a set and that nobody wants there.
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

// staying returns the values that would leave a deny twin, and are held back.
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

// Covers reports whether a rule that comes to name a deny twin sees everybody there who
// is to be in it, though others may be there too: the set is known to be in HNS with
// every member that is wanted, none left out, and of a nested set those are so too. It
// is Closed for rules that deny, and costs the members.
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
