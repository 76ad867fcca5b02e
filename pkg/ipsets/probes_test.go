package ipsets

import "slices"

// What tests ask a cache.

// Holds reports whether the reference is held.
func (c *Cache) Holds(n Name, r Ref) bool {
	s := c.find(n)
	if s == nil {
		return false
	}
	if r.Kind == RefList {
		return slices.Contains(s.references(), r)
	}
	_, held := s.refs[r]
	return held
}

// Searching reports whether there are suspects: Plan has more to ask than it would
// otherwise.
func (c *Cache) Searching() bool { return len(c.suspects) > 0 }

// Snapshot returns all sets, by name.
func (c *Cache) Snapshot() []SetState { return c.Copy().States() }
