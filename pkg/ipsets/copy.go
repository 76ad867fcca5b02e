package ipsets

import (
	"cmp"
	"iter"
	"slices"

	"github.com/winnpm/winnpm/pkg/pieces"
)

// Copy is the state of a Cache at one moment. It shares nothing with the Cache.
type Copy struct {
	sets   []portrait // by name
	index  map[*set]int
	byName map[Name]int
	byID   map[string]int
}

// Copy returns what was copied, after End. It needs the Cache no more.
func (p *Copying) Copy() *Copy {
	out := &Copy{
		sets:   make([]portrait, 0, len(p.sets)),
		index:  make(map[*set]int, len(p.sets)),
		byName: make(map[Name]int, len(p.sets)),
		byID:   make(map[string]int, len(p.sets)),
	}
	for _, s := range p.sets {
		if was, noted := p.heads[s.of]; noted {
			if was == nil {
				continue
			}
			s.face = *was
		}
		s.addrs = before(s.addrs, p.addrs[s.of])
		s.members = before(s.members, p.members[s.of])
		s.refs = held(s.refs, p.refs[s.of])
		out.sets = append(out.sets, s)
	}
	slices.SortFunc(out.sets, func(a, b portrait) int { return Compare(a.name, b.name) })
	for i := range out.sets {
		s := &out.sets[i]
		out.index[s.of], out.byName[s.name], out.byID[s.id] = i, i, i
	}
	return out
}

// before returns members as they were: of what was noted the first counts.
func before[K comparable](copied, noted []mark[K]) []mark[K] {
	if len(noted) == 0 {
		return copied
	}
	was := make(map[K]uint8, len(noted))
	for _, m := range slices.Backward(noted) {
		was[m.key] = m.bits
	}
	copied = slices.DeleteFunc(copied, func(m mark[K]) bool { _, is := was[m.key]; return is })
	for k, bits := range was {
		copied = append(copied, mark[K]{k, bits})
	}
	return copied
}

// held is before for references; it returns those that were held.
func held(copied, noted []hold) []hold {
	if len(noted) == 0 {
		return copied
	}
	was := make(map[Ref]bool, len(noted))
	for _, h := range slices.Backward(noted) {
		was[h.ref] = h.held
	}
	copied = slices.DeleteFunc(copied, func(h hold) bool { _, is := was[h.ref]; return is })
	for ref, yes := range was {
		if yes {
			copied = append(copied, hold{ref, true})
		}
	}
	return copied
}

// copied returns a copy that is made at once.
func (c *Cache) copied() *Copy {
	p := c.Begin()
	defer p.End()
	p.Heads(pieces.AtOnce())
	p.Content(pieces.AtOnce())
	return p.Copy()
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
	for i := range p.sets {
		s := &p.sets[i]
		for m := range having(s.members, wanted|applied|leftOut) {
			in[m] = append(in[m], Ref{Kind: RefList, Owner: s.name.String()})
		}
	}
	out := make([]SetState, 0, len(p.sets))
	for i := range p.sets {
		s := &p.sets[i]
		out = append(out, SetState{
			ID: s.id, Name: s.name.String(), Nested: s.name.Nested(),
			Members: p.shown(s), Refs: s.references(in[s.of]),
			InHNS: s.present, Known: !s.unknown, Rejected: s.refused, Dirty: s.needed && s.dirty(),
			Spare: s.spare, Group: s.group, Clings: s.clings, Ending: s.ending, Reading: s.reading, Called: s.calledElse(),
		})
	}
	return out
}

// calledElse returns what HNS calls the set, "" where that is its name.
func (s *portrait) calledElse() string {
	if called := cmp.Or(s.called, s.name.Called()); called != s.name.String() {
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
	for _, h := range s.refs {
		out = append(out, h.ref)
	}
	out = append(out, in...)
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
