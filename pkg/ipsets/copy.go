package ipsets

import (
	"slices"
	"time"
)

// SetState is a snapshot of one set.
type SetState struct {
	ID       string
	Name     string
	Nested   bool
	Members  []string // desired, readable, in order, without the permanent one; of an undefined set the members in HNS
	Refs     []Ref    // sorted
	InHNS    bool     // as far as known
	Rejected bool     // HNS rejects the desired content
	Dirty    bool     // needed, and different in HNS
	Fed      bool     // defined only because rules in HNS may name it
	// Missing has the Members that HNS lacks, Surplus the other members that HNS has. A nested set
	// without its permanent member matches everything if it is empty.
	Missing, Surplus []string
	// Unknown: the outcome of a write is not known, or HNS holds values that are never ours.
	Unknown bool
	// Since is the time since when a needed set has differed, or HNS has rejected it.
	Since time.Time
	// Spare is the time since when the set has been in HNS and not needed.
	Spare  time.Time
	Called string // the name of the set in HNS, if that is not Name
}

// Copy is the state of a Cache at one moment. It shares nothing with the Cache.
type Copy struct {
	sets     []copied
	names    map[string]Name // by id
	rejected map[Name]bool   // the rejected sets
}

// copied is a copy of a set. render adds the members to its state.
type copied struct {
	state    SetState
	name     Name
	defined  bool
	unfilled bool // a nested set in HNS that lacks its permanent member
	addrs    []mark[addr]
	members  []mark[Name] // without the permanent one
}

// mark is a member with its bits in a tracker.
type mark[K any] struct {
	key  K
	bits uint8
}

// Copy returns the Cache as it is now, in a time that grows with all members and
// references: milliseconds among 100,000 pods (ADR 26).
func (c *Cache) Copy() *Copy {
	p := &Copy{sets: make([]copied, 0, len(c.byID)), names: make(map[string]Name, len(c.byID)), rejected: map[Name]bool{}}
	for id, s := range c.byID {
		p.sets = append(p.sets, c.copySet(s))
		p.names[id] = s.name
		if s.rejects() {
			p.rejected[s.name] = true
		}
	}
	slices.SortFunc(p.sets, func(a, b copied) int { return Compare(a.name, b.name) })
	return p
}

func (c *Cache) copySet(s *set) copied {
	out := copied{
		state: SetState{
			ID: s.id, Name: s.name.String(), Nested: s.nested, Refs: s.references(), InHNS: s.present, Rejected: s.rejected,
			Dirty: s.needed && s.dirty(), Fed: s.fed(), Unknown: s.unknown || s.alien, Since: c.pending[s], Spare: c.spare[s],
		},
		name: s.name, defined: s.defined, unfilled: s.nested && s.present && !c.filled(s),
		addrs:   make([]mark[addr], 0, len(s.addrs.bits)),
		members: make([]mark[Name], 0, len(s.members.bits)),
	}
	for a, bits := range s.addrs.bits {
		out.addrs = append(out.addrs, mark[addr]{a, bits})
	}
	for m, bits := range s.members.bits {
		if !m.filler() {
			out.members = append(out.members, mark[Name]{m.name, bits})
		}
	}
	return out
}

// fed reports whether the set is defined only because rules in HNS may see it.
func (s *set) fed() bool {
	for r := range s.refs {
		if r.Kind.defines() {
			return false
		}
	}
	for _, l := range s.parents {
		if l.desired {
			return false
		}
	}
	return s.defined
}

// Lookup returns the name of the set with an id, as Cache.Lookup does.
func (p *Copy) Lookup(id string) (Name, bool) {
	n, ok := p.names[id]
	return n, ok
}

// Rejected reports whether HNS rejects the desired content, as Cache.Rejected does.
func (p *Copy) Rejected(n Name) bool { return p.rejected[n] }

// States returns all sets, by name.
func (p *Copy) States() []SetState {
	out := make([]SetState, 0, len(p.sets))
	for i := range p.sets {
		out = append(out, p.sets[i].render())
	}
	return out
}

// render adds the members to the state.
func (s *copied) render() SetState {
	should := func(bits uint8) bool { return bits&(desired|omitted) != 0 }
	out := s.state
	if called := s.name.Called(); called != out.Name {
		out.Called = called
	}
	if s.defined {
		out.Members = s.texts(should)
	} else {
		out.Members = s.texts(func(bits uint8) bool { return bits&actual != 0 })
	}
	if s.defined && out.InHNS {
		out.Missing = s.texts(func(bits uint8) bool { return should(bits) && bits&actual == 0 })
		out.Surplus = s.texts(func(bits uint8) bool { return !should(bits) && bits&actual != 0 })
	}
	if s.unfilled {
		out.Missing = append(out.Missing, Empty().String())
		slices.Sort(out.Missing)
	}
	return out
}

// texts returns the members with such bits, in order.
func (s *copied) texts(in func(bits uint8) bool) (out []string) {
	if !s.state.Nested {
		addrs := make([]addr, 0, len(s.addrs))
		for _, m := range s.addrs {
			if in(m.bits) {
				addrs = append(addrs, m.key)
			}
		}
		return textsOf(addrs)
	}
	for _, m := range s.members {
		if in(m.bits) {
			out = append(out, m.key.String())
		}
	}
	slices.Sort(out)
	return out
}
