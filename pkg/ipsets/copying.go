package ipsets

import (
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/pieces"
)

// Copying is a copy of a Cache that is being made, of the moment at which it
// began. It is copied piece by piece, and whenever it pauses the Cache may
// change: what changes is noted as it was before, at O(1) a member or reference,
// and goes over what was copied in the end.
type Copying struct {
	c *Cache

	sets  []portrait // of any moment since, but for what is noted
	index map[*set]int
	left  []*set // not under the id any more that they were found under

	heads   map[*set]*face // as they were; nil for a set that was not there
	addrs   map[*set][]mark[addr]
	members map[*set][]mark[*set]
	refs    map[*set][]hold
}

// face is a set without its content.
type face struct {
	of *set
	head
	spare, late time.Time
	isLate      bool
}

// portrait is a set with its content.
type portrait struct {
	face
	addrs   []mark[addr]
	members []mark[*set]
	refs    []hold
}

// mark is what is known of a member.
type mark[K comparable] struct {
	key  K
	bits uint8
}

// leftOut marks a wanted member that is left out.
const leftOut uint8 = 1 << 7

// hold is a reference, and whether it is held.
type hold struct {
	ref  Ref
	held bool
}

// Begin begins a copy of the Cache as it is now. It costs O(1). Heads follows,
// Content unless numbers are enough, and End.
func (c *Cache) Begin() *Copying {
	p := &Copying{
		c: c, index: map[*set]int{}, heads: map[*set]*face{},
		addrs: map[*set][]mark[addr]{}, members: map[*set][]mark[*set]{}, refs: map[*set][]hold{},
	}
	c.copies = append(c.copies, p)
	return p
}

// Heads copies what there is of the sets beside their content.
func (p *Copying) Heads(pace pieces.Pace) {
	b := pieces.NewBuffer(pace, func(piece []face) {
		for _, f := range piece {
			if _, twice := p.index[f.of]; !twice {
				p.index[f.of] = len(p.sets)
				p.sets = append(p.sets, portrait{face: f})
			}
		}
	})
	for _, s := range p.c.byID {
		b.Add(p.c.face(s))
	}
	for i := 0; i < len(p.left); i++ { // more may come
		b.Add(p.c.face(p.left[i]))
	}
	b.Flush()
}

// part is a member or a reference of the set with an index.
type part struct {
	set    int
	addr   addr // unless it is one of the others
	member *set
	bits   uint8
	ref    Ref
}

// Content copies the members and references of the sets.
func (p *Copying) Content(pace pieces.Pace) {
	b := pieces.NewBuffer(pace, func(piece []part) {
		for _, part := range piece {
			switch s := &p.sets[part.set]; {
			case part.member != nil:
				s.members = append(s.members, mark[*set]{part.member, part.bits})
			case part.ref != Ref{}:
				s.refs = append(s.refs, hold{part.ref, true})
			default:
				s.addrs = append(s.addrs, mark[addr]{part.addr, part.bits})
			}
		}
	})
	for i := range p.sets {
		s := p.sets[i].of
		for a, bits := range s.addrs.bits {
			b.Add(part{set: i, addr: a, bits: bits})
		}
		for m, bits := range s.members.bits {
			if bits&(wanted|applied) == 0 { // it was refused once, which is not noted
				b.Look()
				continue
			}
			b.Add(part{set: i, member: m, bits: s.membership(m)})
		}
		for m := range s.left {
			if !s.members.is(m, wanted|applied) { // else it came already
				b.Add(part{set: i, member: m, bits: leftOut})
			}
		}
		for r := range s.refs {
			b.Add(part{set: i, ref: r})
		}
		b.Look()
	}
	b.Flush()
}

// End ends the copy: from now on nothing is noted. It may end early, and then it
// is no copy.
func (p *Copying) End() {
	p.c.copies = slices.DeleteFunc(p.c.copies, func(o *Copying) bool { return o == p })
}

// ----- what is noted -----

// face returns a set without its content.
func (c *Cache) face(s *set) face {
	late, isLate := c.late[s]
	return face{of: s, head: s.head, spare: c.spare[s], late: late, isLate: isLate}
}

// touch notes the head of a set, and since when it has been spare or late, before
// they change.
func (c *Cache) touch(s *set) {
	for _, p := range c.copies {
		if _, noted := p.heads[s]; !noted {
			f := c.face(s)
			p.heads[s] = &f
		}
	}
}

// born notes that a set was not there.
func (c *Cache) born(s *set) {
	for _, p := range c.copies {
		p.heads[s] = nil
	}
}

// moved notes that a set is no longer to be found under its id, before.
func (c *Cache) moved(s *set) {
	c.touch(s)
	for _, p := range c.copies {
		p.left = append(p.left, s)
	}
}

// noteAddr notes an address of which these bits changed.
func (c *Cache) noteAddr(s *set, a addr, changed uint8) {
	for _, p := range c.copies {
		p.addrs[s] = append(p.addrs[s], mark[addr]{a, s.addrs.bits[a] ^ changed})
	}
}

// noteAddrs notes all addresses of a set, before they change.
func (c *Cache) noteAddrs(s *set) {
	if len(c.copies) == 0 {
		return
	}
	for a := range s.addrs.bits {
		c.noteAddr(s, a, 0)
	}
}

// reachedAddrs records the applied content of a leaf. It returns how many members
// came and went.
func (c *Cache) reachedAddrs(s *set, list []addr) (added, missing int) {
	came, went := s.addrs.reach(list)
	for _, a := range slices.Concat(came, went) {
		c.noteAddr(s, a, applied)
	}
	return len(came), len(went)
}

// membership is what is known of a leaf in a nested set.
func (s *set) membership(m *set) uint8 {
	bits := s.members.bits[m]
	if _, left := s.left[m]; left {
		bits |= leftOut
	}
	return bits
}

// noteMember notes a member of a nested set of which these bits changed, or are
// about to: then none.
func (c *Cache) noteMember(s, m *set, changed uint8) {
	for _, p := range c.copies {
		p.members[s] = append(p.members[s], mark[*set]{m, s.membership(m) ^ changed})
	}
}

// noteRef notes whether a reference is held, before that changes.
func (c *Cache) noteRef(s *set, r Ref, held bool) {
	for _, p := range c.copies {
		p.refs[s] = append(p.refs[s], hold{r, held})
	}
}
