package ipsets

import (
	"cmp"
	"fmt"
	"slices"
)

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

// needs reports whether a reference of the kind keeps a set in HNS: a policy
// that only mentions it does not.
func (k RefKind) needs() bool { return k == RefRule || k == RefActual || k == RefPin }

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
		s.direct += count(r.Kind.needs())
	}
	if r.Kind.defines() && n.known() {
		created = c.define(s, n)
	}
	c.refresh(s)
	return created
}

// Release drops a reference. With the last one the set loses its definition and
// desired members; the Cache forgets it once it is not in HNS either.
func (c *Cache) Release(n Name, r Ref) {
	s, held := c.find(n), false
	if s != nil {
		_, held = s.refs[r]
	}
	if !held {
		panic(fmt.Sprintf("BUG: release of %s, which is not held by %s %q", n, r.Kind, r.Owner))
	}
	delete(s.refs, r)
	s.direct -= count(r.Kind.needs())
	c.refresh(s)
	c.undefine(s)
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

// Define defines a set that is held, or that a needed nested set contains, and
// reports whether it was not. The caller feeds it then, as after Hold. It is no
// reference: the last of those that there are ends the definition.
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
