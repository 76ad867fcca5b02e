package ipsets

import (
	"fmt"
	"slices"
)

// An orphan, here, is a set that rules in HNS see and that nobody asks for: of a policy
// that went while no process ran. Its content is wanted by nobody, and yet it has
// to move along with the sets that the same rules name. Its name may tell what
// belongs into it: then the caller defines it.

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
		panic(fmt.Sprintf("BUG: definition of %s, which nobody holds", n))
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
