package ipsets

import (
	"iter"
	"slices"
)

// A member that moves from one set to another must never be in both: a rule that names both
// sets would match it, although the rule matches it neither before nor after the move. A
// request that writes both sets is safe. When HNS cannot update one of the sets, the others are
// written without it. Then a member joins a set that rules name only after it has left every
// other set that they name. The other members of these sets are written without delay.

// Sight says which sets the rules of an owner of references name in HNS.
type Sight uint8

// The sights.
const (
	SeesApplied Sight = iota // the sets of RefApplied
	SeesPinned               // the sets of RefApplied and RefPin: it is unknown which rules HNS has
	SeesNothing              // none: the owner is an endpoint without a pod
)

// See sets which sets the rules of an owner name. The default is SeesApplied, and setting it
// removes the entry of the owner.
func (c *Cache) See(owner string, what Sight) {
	if what == SeesApplied {
		delete(c.sights, owner)
		return
	}
	c.sights[owner] = what
}

// Await holds back changes of nested sets for some leaves while an owner still has outdated
// rules. Until the next call for the owner, the leaves and their deny twins do not join a nested
// allow set that these rules name, and do not leave a nested deny twin that they name. Otherwise
// the outdated rules, with the new sets, could allow packets that both the old and the new
// state deny. A call without leaves ends the hold.
func (c *Cache) Await(owner string, leaves ...Name) {
	if len(leaves) == 0 {
		delete(c.awaited, owner)
		return
	}
	c.awaited[owner] = leaves
}

// waitsFor reports whether a leaf must stay in or out of a nested set until an owner has new
// rules. Its cost is linear in the number of owners that Await was called for.
func (c *Cache) waitsFor(nested, leaf *set) bool {
	for owner := range c.awaited {
		if c.waitsForOwner(nested, leaf, owner) {
			return true
		}
	}
	return false
}

// waitsForOwner is waitsFor for one owner.
func (c *Cache) waitsForOwner(nested, leaf *set, owner string) bool {
	leaves := c.awaited[owner]
	if !slices.Contains(leaves, leaf.name) && !slices.Contains(leaves, leaf.name.Twin()) {
		return false
	}
	_, sees := nested.refs[Ref{RefApplied, owner}]
	if !sees && c.sights[owner] == SeesPinned {
		_, sees = nested.refs[Ref{RefPin, owner}]
	}
	return sees
}

// Awaited reports whether a leaf waits until the owner has new rules. Its cost is linear in the
// number of pending sets.
func (c *Cache) Awaited(owner string) bool {
	for s := range c.pending {
		waiting := s.members.joins()
		if s.name.Denies() {
			waiting = s.members.surplus()
		}
		for m := range waiting {
			if c.waitsForOwner(s, m, owner) {
				return true
			}
		}
	}
	return false
}

// seen reports whether rules may name the set, or a nested set that contains it. A nested set that should contain
// the set counts as well if desired is true, if its members in HNS are unknown, or if HNS lacks it, as it is then
// created with all its members.
func (c *Cache) seen(s *set, desired bool) bool {
	for r := range s.refs {
		switch sight := c.sights[r.Owner]; {
		case sight == SeesNothing:
		case r.Kind == RefApplied, r.Kind == RefPin && sight == SeesPinned:
			return true
		}
	}
	for l, how := range s.lists {
		if (how.applied || how.asked && (desired || l.unknown || !l.present)) && c.seen(l, desired) {
			return true
		}
	}
	return false
}

// stuck reports whether the set has surplus members, and the next request may fail to remove them.
func (s *set) stuck() bool {
	return (s.unknown || s.refused || s.group > 0 || s.nested() && s.blocked()) && s.surplus()
}

// surplus reports whether HNS has members in the set that the desired set lacks. It ignores
// sets without a definition and members that cannot be read. Its cost is linear in the number
// of members.
func (s *set) surplus() bool {
	if !s.defined || !s.present && !s.unknown || s.addrs.differs+s.members.differs == 0 {
		return false
	}
	for range s.addrs.surplus() {
		return true
	}
	for range s.members.surplus() {
		return true
	}
	return false
}

// surplus yields the keys that are applied and not wanted.
func (t *tracker[K]) surplus() iter.Seq[K] { return t.having(applied) }

// joins yields the keys that are wanted and not applied.
func (t *tracker[K]) joins() iter.Seq[K] { return t.having(wanted) }

// having yields the keys that have this bit and not the other one.
func (t *tracker[K]) having(bit uint8) iter.Seq[K] {
	return func(yield func(K) bool) {
		if t.differs == 0 {
			return
		}
		for k, b := range t.bits {
			if b&(wanted|applied) == bit && !yield(k) {
				return
			}
		}
	}
}

// waiting has members of sets that cannot be written now. For a member of a nested set, addrs
// has the addresses in that member.
type waiting struct {
	addrs   map[addr]struct{}
	members map[*set]struct{}
}

// add adds addresses, and members of nested sets with their addresses.
func (h *waiting) add(addrs iter.Seq[addr], members iter.Seq[*set]) {
	if h.addrs == nil {
		*h = waiting{map[addr]struct{}{}, map[*set]struct{}{}}
	}
	some, sets := h.addrs, h.members // keeps h itself on the stack: most plans hold no member
	for a := range addrs {
		some[a] = struct{}{}
	}
	for m := range members {
		sets[m] = struct{}{}
		for a := range m.addrs.all(wanted | applied) {
			some[a] = struct{}{}
		}
	}
}

// waits has the members whose other changes must wait. A member in leaving must leave an allow
// set first; until then it joins no other allow set and leaves no deny twin. A member in joining
// must join a deny twin first; until then it leaves no other deny twin and joins no allow set.
type waits struct {
	leaving, joining waiting
	// nesting has the addresses in leaves that join a nested deny twin. Leaves are written
	// before nested sets, so these addresses leave no other leaf before that.
	nesting map[addr]struct{}
}

// nest adds the addresses in some leaves to nesting.
func (h *waits) nest(leaves iter.Seq[*set]) {
	for m := range leaves {
		for a := range m.addrs.all(wanted | applied) {
			if h.nesting == nil {
				h.nesting = map[addr]struct{}{}
			}
			h.nesting[a] = struct{}{}
		}
	}
}

// hold returns the members that wait, for a plan (alone is nil) or for a request that writes
// only the set alone. Its cost is linear in the number of pending sets and of the members of
// stuck sets.
func (c *Cache) hold(alone *set) waits {
	var h waits
	for s := range c.pending {
		later := alone != nil && s != alone
		switch {
		case s.name.Denies():
			switch {
			case s.members.differs == 0 && s.addrs.differs == 0, !c.seen(s, true):
			case s.lacking(later):
				h.joining.add(s.addrs.joins(), s.members.joins())
			default:
				h.nest(s.members.joins())
			}
		case (s.stuck() || later && s.surplus()) && c.seen(s, false):
			h.leaving.add(s.addrs.surplus(), s.members.surplus())
		}
	}
	return h
}

// allowed returns the value that may be written to a set now: the desired value without the
// joins that are held back, and without leaves that HNS lacks and may reject. all reports
// whether the result is the whole desired value.
func (c *Cache) allowed(s *set, h waits) (v SetValue, all bool) {
	without, bits := c.back(s, h), uint8(wanted)
	all = len(without) == 0
	if s.name.Denies() && !all {
		stays := without
		without, bits = map[string]bool{}, wanted|applied
		for value := range s.gone() {
			if !stays[value] {
				without[value] = true
			}
		}
	}
	if len(c.suspects) > 0 {
		for m := range s.members.joins() {
			if m.untried() {
				without[m.id], all = true, false
			}
		}
	}
	v = s.value(bits)
	if len(without) > 0 {
		v.keep(func(value string) bool { return !without[value] })
	}
	return v, all
}

// untried reports whether HNS lacks the leaf and may be rejecting it.
func (s *set) untried() bool { return s.group > 0 && !s.present && !s.filler() }

// back returns the values that are held back: they would join the set or, if it is a deny twin,
// leave it.
func (c *Cache) back(s *set, h waits) map[string]bool {
	if s.name.Denies() {
		return c.staying(s, h)
	}
	return c.away(s, h)
}

// away is back for a set of allow rules. An address waits until it has left the other allow
// sets and has joined the deny twins.
func (c *Cache) away(s *set, h waits) map[string]bool {
	values := map[string]bool{}
	for m := range s.members.joins() {
		if c.waitsFor(s, m) {
			values[m.id] = true
		}
	}
	if h.empty() || !c.seen(s, true) {
		return values
	}
	for _, w := range []waiting{h.leaving, h.joining} {
		for a := range w.addrs {
			if s.addrs.bits[a]&(wanted|applied) == wanted {
				values[a.String()] = true
			}
		}
		for m := range s.members.joins() {
			if w.holds(m) {
				values[m.id] = true
			}
		}
	}
	return values
}

// empty reports whether both leaving and joining are empty.
func (h waits) empty() bool {
	return len(h.leaving.addrs)+len(h.leaving.members)+len(h.joining.addrs)+len(h.joining.members) == 0
}

// holds reports whether m, a member of a nested set, or an address in it waits. Its cost is
// linear in the number of waiting addresses.
func (h waiting) holds(m *set) bool {
	if _, ok := h.members[m]; ok {
		return true
	}
	for a := range h.addrs {
		if m.addrs.is(a, wanted|applied) { // ignores addresses that HNS once rejected there
			return true
		}
	}
	return false
}

// HeldBack reports whether members wait because HNS does not let them leave another set or join
// a deny twin. The wait ends when no rule names that other set any more: see Stuck. Its cost is
// linear in the number of pending sets.
func (c *Cache) HeldBack() bool {
	h := c.hold(nil)
	for s := range c.pending {
		if len(c.back(s, h)) > 0 {
			return true
		}
	}
	return false
}

// Stuck reports whether a needed set has surplus members that the next request may fail to
// remove. For a deny twin see Rejected instead: no set waits for it to lose members. The cost
// is linear in the number of members.
func (c *Cache) Stuck(n Name) bool {
	s := c.byName[n]
	return s != nil && s.needed && s.stuck()
}

// Closed reports whether an allow rule may start to name the set: HNS is known to have the set
// with desired members only, and the same holds for the members of a nested set. Desired
// members may still be missing. The cost is linear in the number of members.
func (c *Cache) Closed(n Name) bool {
	s := c.byName[n]
	if s == nil || !s.closed() || s.nested() && !s.filled() {
		return false
	}
	for m := range s.members.all(applied) {
		if !m.closed() {
			return false
		}
	}
	return true
}

func (s *set) closed() bool {
	return s.defined && s.present && !s.unknown && !s.alien && !s.refused && !s.surplus()
}
