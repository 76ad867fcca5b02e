package ipsets

import (
	"iter"
	"slices"
)

// A member that leaves one set and joins another must not show in both: a rule that
// asks for both sets would let in who neither before nor after is in both. In one
// request that cannot happen. When a set cannot be brought up to date, the others
// are written without it: then a member joins a set that rules see only once it has
// left every set that they see, and all other members go on.

// Sight is what rules of an owner of references see.
type Sight uint8

// The sights.
const (
	SeesApplied Sight = iota // what RefApplied names
	SeesPinned               // and what RefPin names: which rules are there is not known
	SeesNothing              // its rules decide about nobody
)

// See says what the rules of an owner see. SeesApplied is what holds of an owner of
// whom nothing was said, and forgets it.
func (c *Cache) See(owner string, what Sight) {
	if what == SeesApplied {
		delete(c.sights, owner)
		return
	}
	c.sights[owner] = what
}

// Await holds back changes of nested sets for some leaves while an owner still has outdated
// rules. Until the next call for the owner, neither the leaves nor their deny twins join a
// nested set that allows, or leave a deny twin, if these rules name it: the outdated rules
// could let through, with the new sets, packets that both the old and the new state block.
// A call without leaves ends the hold.
func (c *Cache) Await(owner string, leaves ...Name) {
	if len(leaves) == 0 {
		delete(c.awaited, owner)
		return
	}
	c.awaited[owner] = leaves
}

// waitsFor reports whether a leaf waits in a nested set, or for it, until some owner of
// references has other rules. It costs the owners of whom Await was told.
func (c *Cache) waitsFor(nested, leaf *set) bool {
	for owner := range c.awaited {
		if c.waitsForOwner(nested, leaf, owner) {
			return true
		}
	}
	return false
}

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

// Awaited reports whether a leaf waits until the owner has other rules. It costs the sets
// that plans are about.
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

// seen reports whether rules may see the set, itself or through a nested set that
// contains it; with desired, also through one that only wants it.
func (c *Cache) seen(s *set, desired bool) bool {
	for r := range s.refs {
		switch sight := c.sights[r.Owner]; {
		case sight == SeesNothing:
		case r.Kind == RefApplied, r.Kind == RefPin && sight == SeesPinned:
			return true
		}
	}
	for l, how := range s.lists {
		if (how.applied || how.asked && (desired || l.unknown)) && c.seen(l, desired) {
			return true
		}
	}
	return false
}

// stuck reports whether the set has members that have to go, and it is not known
// that the next request takes them out.
func (s *set) stuck() bool {
	return (s.unknown || s.refused || s.group > 0 || s.nested() && s.blocked()) && s.surplus()
}

// surplus reports whether HNS has readable members in a defined set that nobody
// wants there. It costs the set's members.
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

// having yields the keys that have just this one of the two bits.
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

// waiting are the members that rules see in a stuck set, and that have to leave it:
// with a member of a nested set, the addresses in it.
type waiting struct {
	addrs   map[addr]struct{}
	members map[*set]struct{}
}

// add makes addresses and members wait.
func (h *waiting) add(addrs iter.Seq[addr], members iter.Seq[*set]) {
	if h.addrs == nil {
		*h = waiting{map[addr]struct{}{}, map[*set]struct{}{}}
	}
	some, sets := h.addrs, h.members // h itself stays on the stack, as most plans hold nobody
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

// waits are the members that keep others from being written. A member in leaving has to
// leave a set that allows before it may join another one, or leave a deny twin. A member in
// joining has to join a deny twin before it may leave another one, or join a set that allows.
type waits struct {
	leaving, joining waiting
	// nesting are the addresses that come into a nested deny twin with a leaf. Leaves are
	// written before nested sets, so such an address leaves no other leaf until then.
	nesting map[addr]struct{}
}

// nest has the addresses in some leaves wait for a nested set.
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

// hold finds them: for a plan, or for a request that writes one set alone. It costs the
// sets that plans are about, and the members of those that are stuck.
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

// allowed returns the value that a set may have now: what is wanted of it without
// the joins that are held back, and without members that HNS lacks while it is not
// known whether it takes them. all reports whether it is everything that is wanted.
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

// untried reports whether HNS has not got the leaf, and it is not known whether it
// takes it.
func (s *set) untried() bool { return s.group > 0 && !s.present && !s.filler() }

// back returns the values that would join the set, or of a deny twin leave it, and are
// held back.
func (c *Cache) back(s *set, h waits) map[string]bool {
	if s.name.Denies() {
		return c.staying(s, h)
	}
	return c.away(s, h)
}

// away is back for a set that rules which allow name: an address waits until it has left
// the sets that allow, and joined the deny twins.
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

// empty reports whether no member waits but for a nested deny twin.
func (h waits) empty() bool {
	return len(h.leaving.addrs)+len(h.leaving.members)+len(h.joining.addrs)+len(h.joining.members) == 0
}

// holds reports whether somebody would join with the member of a nested set who has
// to leave another set, or join a deny twin. It costs those that wait.
func (h waiting) holds(m *set) bool {
	if _, ok := h.members[m]; ok {
		return true
	}
	for a := range h.addrs {
		if m.addrs.is(a, wanted|applied) { // not who was refused there once
			return true
		}
	}
	return false
}

// HeldBack reports whether members wait to join sets until they have left others,
// which HNS does not let them, or have joined deny twins. They can once no rule sees those: see Stuck. It costs
// the sets that plans are about, and nothing when all is well.
func (c *Cache) HeldBack() bool {
	h := c.hold(nil)
	for s := range c.pending {
		if len(c.back(s, h)) > 0 {
			return true
		}
	}
	return false
}

// Stuck reports whether a needed set has members that have to go and, as far as is
// known, cannot. No set waits for a deny twin to lose members: see Rejected. It costs the
// set's members.
func (c *Cache) Stuck(n Name) bool {
	s := c.byName[n]
	return s != nil && s.needed && s.stuck()
}

// Closed reports whether a rule that comes to name the set sees nobody there who is
// not to be in it, though others may be missing: the set is known to be in HNS with
// wanted members only, and of a nested set those are so too. It costs the members.
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
