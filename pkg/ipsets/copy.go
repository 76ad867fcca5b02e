package ipsets

import (
	"iter"
	"maps"
	"slices"
	"time"
)

// Copy is the state of a Cache at one moment. It shares nothing with the Cache.
type Copy struct {
	sets   []portrait // by name
	index  map[*set]int
	byName map[Name]int
	byID   map[string]int
}

// portrait is a set as it was.
type portrait struct {
	of *set
	head
	late    time.Time // since when, if isLate
	isLate  bool
	spare   time.Time
	addrs   []mark[addr]
	members []mark[*set]
	refs    []Ref
}

// mark is what is known of a member.
type mark[K comparable] struct {
	key  K
	bits uint8
}

// leftOut marks a wanted member that is left out.
const leftOut uint8 = 1 << 7

// Copy returns the Cache as it is now, in a time that grows with all members and
// references: milliseconds among 100,000 pods (ADR 26).
func (c *Cache) Copy() *Copy {
	p := &Copy{
		sets:   make([]portrait, 0, len(c.byID)),
		index:  make(map[*set]int, len(c.byID)),
		byName: make(map[Name]int, len(c.byID)),
		byID:   make(map[string]int, len(c.byID)),
	}
	for _, s := range c.byID {
		p.sets = append(p.sets, c.portrait(s))
	}
	slices.SortFunc(p.sets, func(a, b portrait) int { return Compare(a.name, b.name) })
	for i := range p.sets {
		s := &p.sets[i]
		p.index[s.of], p.byName[s.name], p.byID[s.id] = i, i, i
	}
	return p
}

func (c *Cache) portrait(s *set) portrait {
	late, isLate := c.late[s]
	p := portrait{
		of: s, head: s.head, spare: c.spare[s], late: late, isLate: isLate,
		addrs:   make([]mark[addr], 0, len(s.addrs.bits)),
		members: make([]mark[*set], 0, len(s.members.bits)),
		refs:    slices.Collect(maps.Keys(s.refs)),
	}
	for a, bits := range s.addrs.bits {
		p.addrs = append(p.addrs, mark[addr]{a, bits})
	}
	for m, bits := range s.members.bits {
		if _, left := s.left[m]; left {
			bits |= leftOut
		}
		if bits&(wanted|applied|leftOut) != 0 { // else it was refused once, no more
			p.members = append(p.members, mark[*set]{m, bits})
		}
	}
	for m := range s.left {
		if _, known := s.members.bits[m]; !known {
			p.members = append(p.members, mark[*set]{m, leftOut})
		}
	}
	return p
}

// Lookup returns the name of the set with an id, as Cache.Lookup does.
func (p *Copy) Lookup(id string) (Name, bool) {
	i, ok := p.byID[id]
	if !ok {
		return Name{}, false
	}
	return p.sets[i].name, true
}

// Rejected reports whether HNS refused the content that is desired, as
// Cache.Rejected does.
func (p *Copy) Rejected(n Name) bool {
	i, ok := p.byName[n]
	if !ok {
		return false
	}
	for range having(p.sets[i].members, leftOut) {
		if n.Denies() {
			return true
		}
	}
	return p.sets[i].refused
}

// name returns the name of a member.
func (p *Copy) name(m *set) Name { return p.sets[p.index[m]].name }

// having yields the members that have any of the bits.
func having[K comparable](marks []mark[K], bits uint8) iter.Seq[K] {
	return func(yield func(K) bool) {
		for _, m := range marks {
			if m.bits&bits != 0 && !yield(m.key) {
				return
			}
		}
	}
}

// dirty reports whether HNS has something else than what is desired.
func (s *portrait) dirty() bool { return s.defined && (!s.present || s.alien || s.differs()) }

// differs reports whether a member is wanted or applied, not both.
func (s *portrait) differs() bool {
	return slices.ContainsFunc(s.addrs, func(m mark[addr]) bool { return apart(m.bits, applied) }) ||
		slices.ContainsFunc(s.members, func(m mark[*set]) bool { return apart(m.bits, applied) })
}

// States returns all sets, by name.
func (p *Copy) States() []SetState {
	in := map[*set][]Ref{} // the nested sets around a leaf
	asked := map[*set]bool{}
	for i := range p.sets {
		s := &p.sets[i]
		for m := range having(s.members, wanted|applied|leftOut) {
			in[m] = append(in[m], Ref{Kind: RefList, Owner: s.name.String()})
		}
		for m := range having(s.members, wanted|leftOut) {
			asked[m] = true
		}
	}
	out := make([]SetState, 0, len(p.sets))
	for i := range p.sets {
		s := &p.sets[i]
		out = append(out, SetState{
			ID: s.id, Name: s.name.String(), Nested: s.name.Nested(),
			Members: p.shown(s), Refs: s.references(in[s.of]),
			InHNS: s.present, Rejected: s.refused, Dirty: s.needed && s.dirty(),
			Fed:   s.defined && !asked[s.of] && !slices.ContainsFunc(s.refs, func(r Ref) bool { return r.Kind.defines() }),
			Spare: s.spare, Called: s.calledElse(),
		})
	}
	return out
}

// calledElse returns what HNS calls the set, "" where that is its name.
func (s *portrait) calledElse() string {
	if called := s.name.Called(); called != s.name.String() {
		return called
	}
	return ""
}

// references returns all references, the nested sets' included, sorted.
func (s *portrait) references(in []Ref) []Ref {
	if len(s.refs)+len(in) == 0 {
		return nil
	}
	out := make([]Ref, 0, len(s.refs)+len(in))
	out = append(append(out, s.refs...), in...)
	slices.SortFunc(out, compareRefs)
	return out
}

// shown returns the members that a dump shows.
func (p *Copy) shown(s *portrait) []string {
	bits := wanted | leftOut
	if !s.defined {
		bits = applied
	}
	if !s.name.Nested() {
		return textsOf(slices.Collect(having(s.addrs, bits)))
	}
	var out []string
	for m := range having(s.members, bits) {
		if n := p.name(m); n != Empty() {
			out = append(out, n.String())
		}
	}
	slices.Sort(out)
	return out
}
