package ipsets

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// set is one set: defined, in HNS, or both, or only held.
type set struct {
	name   Name
	id     string
	called string // the name in HNS
	nested bool

	refs    map[Ref]struct{}
	direct  int           // references that keep it in HNS: all but selectors
	parents map[*set]link // the nested sets that contain it in HNS, or should
	holders int           // of those, the ones that keep it defined
	users   int           // of those, the ones that are needed

	defined bool // callers set its members; otherwise it has no desired members
	present bool // in HNS, as far as known
	unknown bool // the outcome of a write is unknown
	alien   bool // HNS holds values that are never ours
	entries int  // number of values that HNS holds

	rejected bool // HNS rejects the desired content
	group    int  // of suspects; 0 for a set that is no suspect
	reading  reading

	counts                // of both trackers
	addrs   tracker[addr] // of a leaf
	members tracker[*set] // of a nested set

	needed   bool // as last seen by refresh
	orphaned bool // as last seen by refresh
}

// link says how a leaf is in a nested set. A needed nested set holds what HNS has in it, also
// if it is not desired: rules see through to that leaf until HNS has the nested set without it,
// so the leaf has to be right until then.
type link struct {
	desired bool // it should be there, also while it is omitted
	actual  bool // HNS has it there
	needed  bool // the nested set is needed
}

func (l link) holds() bool { return l.desired || l.actual && l.needed }

func (s *set) filler() bool { return s.name.kind == KindEmpty }

// dirty reports whether the set in HNS differs from the desired one.
func (s *set) dirty() bool { return s.defined && (!s.present || s.alien || s.missing+s.surplus > 0) }

// find returns the entry of a name, also by the id, for a set that was read
// under another name. A miss costs a hash.
func (c *Cache) find(n Name) *set {
	if s := c.byName[n]; s != nil {
		return s
	}
	return c.byID[n.ID()]
}

// entry returns the entry of a name, and makes an undefined one if it is missing. The caller must
// call refresh, which drops an entry that nothing needs.
func (c *Cache) entry(n Name) *set {
	if s := c.find(n); s != nil {
		return s
	}
	s := &set{name: n, id: n.ID(), called: n.Called(), nested: n.Nested()}
	s.addrs.counts, s.members.counts = &s.counts, &s.counts
	c.byName[n], c.byID[s.id] = s, s
	return s
}

// define defines an entry, so that callers set its members, and reports whether it was
// undefined. It keeps the recorded state of HNS.
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
	if s.nested {
		c.addMember(s, Empty())
	}
	return true
}

// rename gives an undefined entry another name. If that changes its type, its values in HNS
// count as alien.
func (c *Cache) rename(s *set, n Name) {
	if s.nested != n.Nested() {
		s.addrs.setActual(nil)
		c.setMembers(s, nil)
		s.alien = s.present
	}
	delete(c.byName, s.name)
	s.name, s.called, s.nested = n, n.Called(), n.Nested()
	c.byName[n] = s
}

// undefine drops the desired content of a set that nothing holds any more.
func (c *Cache) undefine(s *set) {
	if !s.defined || len(s.refs)+s.holders > 0 {
		return
	}
	for m := range s.members.all(desired | omitted) {
		c.removeMember(s, m)
	}
	s.addrs.clearDesired()
	s.defined = false
	c.setRejected(s, false)
	c.refresh(s)
}

// addMember makes a leaf a desired member of a defined nested set and reports whether that
// defined the leaf.
func (c *Cache) addMember(nested *set, member Name) (created bool) {
	leaf := c.entry(member)
	l := leaf.parents[nested]
	if l.desired {
		return false
	}
	created = c.define(leaf, member)
	l.desired = true
	c.include(nested, leaf)
	c.relink(nested, leaf, l)
	c.refresh(nested)
	return created
}

// removeMember removes a leaf from the desired members of a nested set.
func (c *Cache) removeMember(nested, leaf *set) {
	l := leaf.parents[nested]
	if !l.desired {
		return
	}
	if nested.members.setDesired(leaf, 0) {
		c.setRejected(nested, false)
	}
	l.desired = false
	c.relink(nested, leaf, l)
	c.refresh(nested)
}

// include makes a leaf desired in a nested set, or omits it if HNS rejects it. The filler
// always stays: without it the set would match everything.
func (c *Cache) include(nested, leaf *set) {
	bit := desired
	if leaf.rejected && !leaf.filler() {
		bit = omitted
	}
	if nested.members.setDesired(leaf, bit) {
		c.setRejected(nested, false)
	}
}

// relink records the link of a leaf to a nested set, and updates the leaf.
func (c *Cache) relink(nested, leaf *set, l link) {
	l.needed = nested.needed && (l.desired || l.actual)
	before := leaf.parents[nested]
	leaf.holders += count(l.holds()) - count(before.holds())
	leaf.users += count(l.needed) - count(before.needed)
	switch {
	case l == link{}:
		delete(leaf.parents, nested)
	case leaf.parents == nil:
		leaf.parents = map[*set]link{nested: l}
	default:
		leaf.parents[nested] = l
	}
	c.refresh(leaf)
	c.undefine(leaf)
}

// setMembers records the actual members of a nested set, and returns how many came and went.
func (c *Cache) setMembers(s *set, members []*set) (added, missing int) {
	came, went := s.members.setActual(members)
	for _, m := range came {
		c.relink(s, m, link{desired: m.parents[s].desired, actual: true})
	}
	for _, m := range went {
		c.relink(s, m, link{desired: m.parents[s].desired})
	}
	return len(came), len(went)
}

// setRejected records whether HNS rejects the desired content. Nested sets omit a leaf that
// it rejects.
func (c *Cache) setRejected(s *set, rejected bool) {
	if s.rejected == rejected {
		return
	}
	s.rejected = rejected
	for l, how := range s.parents {
		if how.desired {
			c.include(l, s)
			c.refresh(l)
		}
	}
}

// refresh brings everything that follows from a set's state up to date: the
// leaves of a nested set, the lists of work, and whether the entry
// has a reason to be. It costs O(1) unless the set became needed or ceased to be; then it
// costs its members.
func (c *Cache) refresh(s *set) {
	if needed := s.direct+s.users > 0; needed != s.needed {
		s.needed = needed
		for m := range s.members.all(desired | omitted | actual) {
			c.relink(s, m, m.parents[s])
		}
	}
	differs := s.unknown || s.dirty()
	if s.rejected || !s.needed || !differs {
		s.group = 0
	}
	c.list(c.unknown, s, s.unknown)
	c.list(c.pending, s, s.needed && (s.rejected || differs))
	c.list(c.spare, s, s.present && !s.needed)
	orphaned := s.needed && s.present && !s.unknown && !s.defined && s.name.known()
	if orphaned && !s.orphaned {
		c.orphans = append(c.orphans, s.name)
	}
	s.orphaned = orphaned
	if !s.defined && !s.present && !s.unknown && len(s.refs)+len(s.parents) == 0 {
		delete(c.byName, s.name)
		delete(c.byID, s.id)
	}
}

// list puts a set into a list of work, with the time, or takes it out.
func (c *Cache) list(m map[*set]time.Time, s *set, in bool) {
	if !in {
		delete(m, s)
	} else if _, was := m[s]; !was {
		m[s] = c.Now
	}
}

// RefKind says why a set is held.
type RefKind uint8

// The kinds of references.
const (
	RefSelector RefKind = iota + 1 // a policy that is active here mentions the set
	RefRule                        // the desired ACLs of a local endpoint name it
	RefList                        // a nested set contains it in HNS, or should; the Cache's own
	RefActual                      // an ACL known to be on an endpoint names it
	RefPin                         // a pending pod update may still need it
)

// String returns the kind in one word, as dumps show it.
func (k RefKind) String() string {
	return [...]string{RefSelector: "selector", RefRule: "rule", RefList: "list", RefActual: "applied", RefPin: "pin"}[k]
}

// defines reports whether a reference of the kind defines the set, so that callers set its
// members. Other kinds only keep the set in HNS.
func (k RefKind) defines() bool { return k == RefSelector || k == RefRule }

// Ref is one reference. It is an identity: holding twice is holding once.
type Ref struct {
	Kind  RefKind
	Owner string
}

func compareRefs(a, b Ref) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Owner, b.Owner))
}

// Hold records a reference. A selector or rule reference defines the set when
// it was not: created is true then, and the caller has to add all its members,
// even when the set is still in HNS from an earlier life, because undefined
// sets have no desired content. An actual reference or pin to an undefined set
// keeps it in HNS as it is, unread and unwritten, and creates nothing.
//
// RefList is the Cache's own. Two names with one id are a bug.
func (c *Cache) Hold(n Name, r Ref) (created bool) {
	if r.Kind == RefList {
		panic(fmt.Sprintf("BUG: list reference on %s from outside", n))
	}
	s := c.entry(n)
	if _, held := s.refs[r]; !held {
		if s.refs == nil {
			s.refs = map[Ref]struct{}{}
		}
		s.refs[r] = struct{}{}
		s.direct += count(r.Kind != RefSelector) // a policy that only mentions a set needs none in HNS
	}
	if r.Kind.defines() && n.known() {
		created = c.define(s, n)
	}
	c.refresh(s)
	return created
}

// Release drops a reference. With the last one the set loses its definition and
// desired members; the Cache forgets it once it is not in HNS either. It reports whether the
// set has no definition now.
func (c *Cache) Release(n Name, r Ref) (undefined bool) {
	s, held := c.find(n), false
	if s != nil {
		_, held = s.refs[r]
	}
	if !held {
		panic(fmt.Sprintf("BUG: release of %s, which is not held by %s %q", n, r.Kind, r.Owner))
	}
	delete(s.refs, r)
	s.direct -= count(r.Kind != RefSelector)
	c.refresh(s)
	c.undefine(s)
	return !s.defined
}

// Refs returns who holds the set, sorted.
func (c *Cache) Refs(n Name) []Ref {
	s := c.find(n)
	if s == nil {
		return nil
	}
	return s.references()
}

// references returns all references, the nested sets' included, sorted.
func (s *set) references() []Ref {
	var out []Ref
	for r := range s.refs {
		out = append(out, r)
	}
	for l := range s.parents {
		out = append(out, Ref{Kind: RefList, Owner: l.name.String()})
	}
	slices.SortFunc(out, compareRefs)
	return out
}

// An orphan is a set that rules in HNS name and no policy mentions, because its policy was deleted
// while no agent ran. It has to change together with the other sets of the same rules. If its name
// tells its members, the caller defines it.

// TakeOrphans returns the sets that became orphans since the last call, in no
// order: needed, known to be in HNS, of a known name and not defined. A nested one
// comes again when HNS has other members in it.
func (c *Cache) TakeOrphans() []Name {
	out := slices.DeleteFunc(c.orphans, func(n Name) bool {
		s := c.byName[n]
		return s == nil || !s.orphaned
	})
	c.orphans = nil
	return out
}

// Define defines a set that is held, or that a needed nested set contains. It reports
// whether the set was undefined; then the caller has to fill it, as after Hold. A definition is no
// reference: it ends with the last reference to the set.
func (c *Cache) Define(n Name) (created bool) {
	s := c.byName[n]
	if s == nil || !n.known() || len(s.refs)+s.holders == 0 {
		panic(fmt.Sprintf("BUG: definition of %s, which has no reference", n))
	}
	created = c.define(s, n)
	c.refresh(s)
	return created
}

// Contained returns the leaves that HNS has in a nested set, in no order, without
// the permanent one. It reports false when there is something else in it. It
// costs the members.
func (c *Cache) Contained(nested Name) ([]Name, bool) {
	s := c.byName[nested]
	if s == nil || !s.present || s.alien {
		return nil, false
	}
	var out []Name
	for m := range s.members.all(actual) {
		if !m.filler() {
			out = append(out, m.name)
		}
	}
	return out, true
}
