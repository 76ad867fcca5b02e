package ipsets

import "slices"

// A member that moves from one set to another must never be in both: an allow rule that names
// both sets would match it, although the rule matches it neither before nor after the move. And
// it must always be in at least one of two deny twins: otherwise a deny rule would miss it. A
// request that writes both sets is safe. When HNS cannot update one of the sets, the others are
// written without it, and their members that depend on it wait:
//
//   - A member joins an allow set that rules name only after it has left every other allow set
//     that they name, and has joined every deny twin that they name.
//   - A member leaves a deny twin that rules name only after it has joined every other deny twin
//     that they name, and has left every allow set that they name. A leaf that HNS rejects stays
//     in a nested deny twin until no rule names that twin.
//
// The other members of these sets are written without delay.

// Sight says which sets the rules of an owner of references name in HNS.
type Sight uint8

// The sights.
const (
	SeesActual  Sight = iota // the sets of RefActual
	SeesPinned               // the sets of RefActual and RefPin: it is unknown which rules HNS has
	SeesNothing              // none: the owner is an endpoint without a pod
)

// See sets which sets the rules of an owner name, and which leaves wait for it: while the owner still
// has outdated rules, these leaves and their deny twins do not join a nested allow set that the rules
// name, and do not leave a nested deny twin that they name. Otherwise the outdated rules, with the new
// sets, could allow packets that both the old and the new state deny. SeesActual without leaves is the
// default, and removes the entries of the owner.
func (c *Cache) See(owner string, what Sight, awaiting ...Name) {
	delete(c.sights, owner)
	delete(c.awaited, owner)
	if what != SeesActual {
		c.sights[owner] = what
	}
	if len(awaiting) > 0 {
		c.awaited[owner] = awaiting
	}
}

// Awaited reports whether a leaf waits until the owner has new rules. Its cost is linear in the
// number of pending sets.
func (c *Cache) Awaited(owner string) bool {
	for s := range c.pending {
		for m := range s.members.only(s.waitingBit()) {
			if c.waitsForOwner(s, m, owner) {
				return true
			}
		}
	}
	return false
}

// waitsForOwner reports whether a leaf must stay in or out of a nested set until an owner has new
// rules.
func (c *Cache) waitsForOwner(nested, leaf *set, owner string) bool {
	leaves := c.awaited[owner]
	if !slices.Contains(leaves, leaf.name) && !slices.Contains(leaves, leaf.name.Twin()) {
		return false
	}
	_, sees := nested.refs[Ref{RefActual, owner}]
	if !sees && c.sights[owner] == SeesPinned {
		_, sees = nested.refs[Ref{RefPin, owner}]
	}
	return sees
}

// seen reports whether rules may name the set, or a nested set that contains it in HNS. A nested
// set that should contain it counts too for a deny twin, if the members of the nested set in HNS are
// unknown, or if HNS lacks the nested set, as it is then created with all its members.
func (c *Cache) seen(s *set) bool {
	for r := range s.refs {
		switch sight := c.sights[r.Owner]; {
		case sight == SeesNothing:
		case r.Kind == RefActual, r.Kind == RefPin && sight == SeesPinned:
			return true
		}
	}
	for l, how := range s.parents {
		if (how.actual || how.desired && (s.name.deny || l.unknown || !l.present)) && c.seen(l) {
			return true
		}
	}
	return false
}

// held has the members that must not move now, addresses (addr) and leaves (*set): each has to
// leave an allow set or to join a deny twin first, and the next requests may fail to do that. With
// a leaf, its addresses are held.
type held struct {
	members map[any]bool
	// nesting has the addresses in leaves that join a nested deny twin. Leaves are written
	// before nested sets, so these addresses leave no leaf before that.
	nesting map[any]bool
}

// hold returns the members that must not move now. Its cost is linear in the number of pending
// sets, plus the number of members of the pending sets that cannot be written.
func (c *Cache) hold() held {
	h := held{map[any]bool{}, map[any]bool{}}
	for s := range c.pending {
		switch {
		case !s.defined || s.missing+s.surplus == 0 || s.surplus == 0 && !s.name.deny: // nothing has to move first
		case s.name.deny && c.seen(s) && s.lacking():
			s.addTo(h.members, desired)
		case s.name.deny && c.seen(s):
			for leaf := range s.members.only(desired) {
				leaf.addAddrsTo(h.nesting)
			}
		case !s.name.deny && s.uncertain() && c.seen(s):
			s.addTo(h.members, actual)
		}
	}
	return h
}

// addTo adds the members that are only desired or only actual, and the addresses in leaves.
func (s *set) addTo(to map[any]bool, bit uint8) {
	for a := range s.addrs.only(bit) {
		to[a] = true
	}
	for leaf := range s.members.only(bit) {
		to[leaf] = true
		leaf.addAddrsTo(to)
	}
}

// addAddrsTo adds the addresses that are in the leaf, or should be.
func (s *set) addAddrsTo(to map[any]bool) {
	for a := range s.addrs.all(desired | actual) {
		to[a] = true
	}
}

// uncertain reports whether the next requests may fail to write the set, or leave it out.
func (s *set) uncertain() bool { return s.unknown || s.rejected || s.group > 0 || s.blocked() }

// lacking reports whether a deny twin lacks members, and the next requests may fail to add them.
func (s *set) lacking() bool {
	if s.uncertain() {
		return s.missing > 0
	}
	for m := range s.members.only(desired) {
		if m.untried() {
			return true
		}
	}
	return false
}

// untried reports whether HNS lacks the leaf and may be rejecting it.
func (s *set) untried() bool { return s.group > 0 && !s.present && !s.filler() }

// holds reports whether a leaf is held, or an address in it.
func (h held) holds(leaf *set) bool {
	for m := range h.members {
		if a, is := m.(addr); m == leaf || is && leaf.addrs.has(a, desired|actual) {
			return true
		}
	}
	return false
}

// waitingBit returns the bit of the members that may have to wait: members that join an allow set, or
// leave a deny twin.
func (s *set) waitingBit() uint8 {
	if s.name.deny {
		return actual
	}
	return desired
}

// waiting returns the members that stay in or out of a set for now, as HNS has them.
func (c *Cache) waiting(s *set, h held) map[any]bool {
	w := map[any]bool{}
	free := len(h.members)+len(c.awaited) == 0 && !s.name.deny
	if free || !s.defined || s.missing+s.surplus == 0 || !c.seen(s) {
		return w
	}
	bit := s.waitingBit()
	for a := range s.addrs.only(bit) {
		if h.members[a] || s.name.deny && h.nesting[a] {
			w[a] = true
		}
	}
	for m := range s.members.only(bit) {
		if s.members.has(m, omitted) || h.holds(m) || c.waits(s, m) {
			w[m] = true
		}
	}
	return w
}

// waits reports whether a leaf must stay in or out of a nested set until any owner has new rules.
func (c *Cache) waits(nested, leaf *set) bool {
	for owner := range c.awaited {
		if c.waitsForOwner(nested, leaf, owner) {
			return true
		}
	}
	return false
}

// allowed returns the value that may be written to a set now: the desired members, except that a
// waiting member stays as it is in HNS, and that leaves are omitted which HNS lacks and may reject.
// all reports whether these are the desired members.
func (c *Cache) allowed(s *set, h held) (v SetValue, all bool) {
	w := c.waiting(s, h)
	for m := range s.members.only(desired) {
		if m.untried() {
			w[m] = true
		}
	}
	return s.value(desired, w), len(w) == 0
}

// HeldBack reports whether members wait because HNS does not let them leave another set or join
// a deny twin. The wait ends when no rule names that other set any more: see Stuck. Its cost is
// linear in the number of pending sets.
func (c *Cache) HeldBack() bool {
	h := c.hold()
	for s := range c.pending {
		if len(c.waiting(s, h)) > 0 {
			return true
		}
	}
	return false
}
