package ipsets

import (
	"slices"
	"time"
)

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
func (c *Cache) Searching() bool {
	for _, s := range c.byID {
		if s.group > 0 {
			return true
		}
	}
	return false
}

// Snapshot returns all sets, by name.
func (c *Cache) Snapshot() []SetState { return c.Copy().States() }

// Difference is how what HNS holds of a set differs from the Members of its SetState.
type Difference struct {
	Missing, Surplus []string
	Unknown          bool
	Since            time.Time
}

// Differences returns the sets that are not as desired, by id.
func (p *Copy) Differences() map[string]Difference {
	out := map[string]Difference{}
	for _, s := range p.States() {
		if len(s.Missing)+len(s.Surplus) > 0 || s.Unknown || !s.Since.IsZero() {
			out[s.ID] = Difference{s.Missing, s.Surplus, s.Unknown, s.Since}
		}
	}
	return out
}
