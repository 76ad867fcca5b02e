package ipsets

import (
	"fmt"
	"iter"
	"time"
)

// set is one set: defined, in HNS, or both.
type set struct {
	head

	refs   map[Ref]struct{}
	direct int           // references that keep it in HNS
	pins   int           // references of pending updates
	lists  map[*set]link // nested sets that it is in
	asking int           // of those, defined ones that want it, or keep it
	using  int           // of those, needed ones

	addrs   tracker[addr]     // of a leaf
	members tracker[*set]     // of a nested set
	left    map[*set]struct{} // wanted members that are left out because HNS refuses them

	orphaned bool // as last seen by refresh
}

// head is what there is of a set beside its content. Whoever changes it calls
// touch before.
type head struct {
	name    Name
	id      string
	defined bool // somebody wants its content; otherwise it has no desired members

	present bool // in HNS, as far as known
	unknown bool // the outcome of a write is not known
	alien   bool // HNS holds values that are never ours
	ending  bool // of an unknown set: the write in doubt is a Remove
	entries int  // number of values that HNS holds

	group int // of suspects; 0: it is none

	reading Reading

	// As last seen by refresh, which passes changes on.
	needed  bool
	refused bool
}

// link says how a leaf is in a nested set. A needed set keeps what it contains in
// HNS and nobody asks for until HNS has it without: so long rules see through to
// the leaf, which counts and has to be right.
type link struct{ asked, applied, kept bool }

func (s *set) nested() bool { return s.name.Nested() }

func (s *set) filler() bool { return s.name.kind == KindEmpty }

func (s *set) rejected() bool {
	return s.defined && (s.addrs.rejected() || s.members.rejected())
}

// dirty reports whether HNS has something else than what is desired.
func (s *set) dirty() bool {
	return s.defined && (!s.present || s.alien || s.addrs.differs+s.members.differs > 0)
}

// asked yields the members that callers want, the permanent one and those left
// out included.
func (s *set) asked() iter.Seq[*set] {
	return func(yield func(*set) bool) {
		for m := range s.members.all(wanted) {
			if !yield(m) {
				return
			}
		}
		for m := range s.left {
			if !yield(m) {
				return
			}
		}
	}
}

// find returns the entry of a name, also by the id, for a set that was read
// under another name. A miss costs a hash.
func (c *Cache) find(n Name) *set {
	if s := c.byName[n]; s != nil {
		return s
	}
	return c.byID[n.ID()]
}

// entry is find that makes an undefined entry when there is none. The caller
// calls refresh, which drops an entry without reason.
func (c *Cache) entry(n Name) *set {
	if s := c.find(n); s != nil {
		return s
	}
	s := &set{head: head{name: n, id: n.ID()}}
	c.byName[n], c.byID[s.id] = s, s
	return s
}

// define makes a set of callers' content out of an entry and reports whether
// it was none. What is applied stays known.
func (c *Cache) define(s *set, n Name) (created bool) {
	if s.name != n {
		if s.defined || s.name.known() {
			panic(fmt.Sprintf("BUG: sets %s and %s have one id %s", s.name, n, s.id))
		}
		c.rename(s, n)
	}
	if s.defined {
		return false
	}
	s.defined = true
	if s.nested() {
		c.ask(s, Empty())
	}
	return true
}

// rename gives an undefined entry another name. When that changes its type,
// what HNS holds is nothing of ours.
func (c *Cache) rename(s *set, n Name) {
	if s.nested() != n.Nested() {
		s.addrs.reach(nil)
		c.reached(s, nil)
		s.alien = s.present
	}
	delete(c.byName, s.name)
	s.name = n
	c.byName[n] = s
}

// undefine drops the desired content of a set that nobody holds or wants.
func (c *Cache) undefine(s *set) {
	if !s.defined || len(s.refs)+s.asking > 0 {
		return
	}
	for m := range s.asked() {
		c.unask(s, m)
	}
	s.addrs.unwant()
	s.members.unwant()
	s.defined = false
	c.refresh(s)
}

// ask makes a defined nested set want a leaf and reports whether that defined
// the leaf.
func (c *Cache) ask(nested *set, member Name) (created bool) {
	leaf := c.entry(member)
	created = c.define(leaf, member)
	l := leaf.lists[nested]
	if l.asked {
		return false
	}
	if !l.kept {
		leaf.asking++
		leaf.using += count(nested.needed)
	}
	l.asked, l.kept = true, false
	leaf.link(nested, l)
	c.include(nested, leaf, !leaf.refused)
	c.refresh(leaf)
	c.refresh(nested)
	return created
}

// unask ends that.
func (c *Cache) unask(nested, leaf *set) {
	l := leaf.lists[nested]
	if !l.asked {
		return
	}
	l.asked, l.kept = false, l.applied && nested.needed
	leaf.link(nested, l)
	nested.members.want(leaf, false)
	delete(nested.left, leaf)
	if !l.kept {
		c.letGo(nested, leaf)
	}
	c.refresh(nested)
}

// letGo ends that a nested set wants or keeps a leaf.
func (c *Cache) letGo(nested, leaf *set) {
	leaf.asking--
	leaf.using -= count(nested.needed)
	c.refresh(leaf)
	c.undefine(leaf)
}

// keep makes a needed nested set keep a leaf that it contains, or ends that.
func (c *Cache) keep(nested, leaf *set, yes bool) {
	l := leaf.lists[nested]
	l.kept = yes
	leaf.link(nested, l)
	leaf.asking += count(yes) - count(!yes)
	leaf.using += count(yes) - count(!yes)
	c.refresh(leaf)
	c.undefine(leaf)
}

// unasked returns the leaves that HNS has in a nested set and nobody asks for.
func (s *set) unasked() []*set {
	var out []*set
	for m := range s.members.all(applied) {
		if !m.lists[s].asked {
			out = append(out, m)
		}
	}
	return out
}

// include puts a wanted member into the value or leaves it out. The filler
// always stays: without it the set would match everything.
func (c *Cache) include(s, leaf *set, yes bool) {
	if yes || leaf.filler() {
		s.members.want(leaf, true)
		delete(s.left, leaf)
		return
	}
	s.members.want(leaf, false)
	if s.left == nil {
		s.left = map[*set]struct{}{}
	}
	s.left[leaf] = struct{}{}
}

// link records how the leaf is in a nested set.
func (s *set) link(nested *set, l link) {
	switch {
	case l == link{}:
		delete(s.lists, nested)
	case s.lists == nil:
		s.lists = map[*set]link{nested: l}
	default:
		s.lists[nested] = l
	}
}

// reached records the applied content of a nested set: what it contains is
// held, what it lost is let go. It returns how many members came and went.
func (c *Cache) reached(s *set, members []*set) (added, missing int) {
	came, went := s.members.reach(members)
	for _, m := range came {
		l := m.lists[s]
		l.applied = true
		m.link(s, l)
		if s.needed && !l.asked {
			c.keep(s, m, true)
		}
	}
	for _, m := range went {
		l := m.lists[s]
		kept := l.kept
		l.applied, l.kept = false, false
		m.link(s, l)
		if kept {
			c.letGo(s, m)
		}
		c.refresh(m)
	}
	return len(came), len(went)
}

// refresh brings everything that follows from a set's state up to date: the
// members and nested sets around it, the lists of work, and whether the entry
// has a reason to be. It costs O(1) unless the set became needed or refused or
// ceased to be; then it costs as much as the sets it is linked with are many.
func (c *Cache) refresh(s *set) {
	if needed := s.direct+s.using > 0; needed != s.needed {
		c.need(s, needed)
	}
	if rejected := s.rejected(); rejected != s.refused {
		c.refuse(s, rejected)
	}
	if s.group > 0 && (s.refused || !s.needed || !s.unknown && !s.dirty()) {
		c.clear(s)
	}
	list(c.unknown, s, s.unknown)
	list(c.pending, s, s.needed && (s.unknown || s.refused || s.dirty()))
	c.stamp(c.spare, s, s.present && !s.needed && (!s.unknown || s.ending)) // a removal in doubt begins no new time
	c.stamp(c.late, s, s.needed && (s.unknown || s.dirty()))
	orphaned := s.needed && s.present && !s.unknown && !s.defined && s.name.known()
	if orphaned && !s.orphaned {
		c.orphans = append(c.orphans, s.name)
	}
	s.orphaned = orphaned
	if !s.defined && !s.present && !s.unknown && len(s.refs)+len(s.lists) == 0 {
		delete(c.byName, s.name)
		delete(c.byID, s.id)
	}
}

// need makes a set needed, or no more, and with it what is in it.
func (c *Cache) need(s *set, needed bool) {
	s.needed = needed
	for m := range s.asked() {
		m.using += count(needed) - count(!needed)
		c.refresh(m)
	}
	for _, m := range s.unasked() { // rules see through to it from now on, or no more
		c.keep(s, m, needed)
	}
}

// refuse makes a set refused, or no more, and so no member of what it should be in.
func (c *Cache) refuse(s *set, refused bool) {
	s.refused = refused
	for l, how := range s.lists {
		if how.asked {
			c.include(l, s, !refused)
			c.refresh(l)
		}
	}
}

// list puts a set into a list of work or takes it out.
func list(m map[*set]struct{}, s *set, in bool) {
	if in {
		m[s] = struct{}{}
		return
	}
	delete(m, s)
}

// stamp keeps since when a set has been in a list, or takes it out.
func (c *Cache) stamp(m map[*set]time.Time, s *set, in bool) {
	_, was := m[s]
	switch {
	case in && !was:
		m[s] = c.now
	case !in && was:
		delete(m, s)
	}
}
