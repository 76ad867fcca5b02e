package ipsets

import "time"

// Programmed is one set in HNS, as far as known.
type Programmed struct {
	ID, Name string
	Nested   bool
	Entries  int // members in HNS, a nested set's permanent one included
}

// Programmed returns the sets that are in HNS, in no order.
func (c *Cache) Programmed() []Programmed {
	var out []Programmed
	for _, s := range c.byID {
		if s.present {
			out = append(out, Programmed{
				ID: s.id, Name: s.name.String(), Nested: s.name.Nested(),
				Entries: s.entries,
			})
		}
	}
	return out
}

// Present reports whether the set is in HNS, as far as known.
func (c *Cache) Present(n Name) bool {
	s := c.byName[n]
	return s != nil && s.present
}

// Spare reports whether the set is in HNS, or may be, and nobody needs it.
func (c *Cache) Spare(n Name) bool {
	s := c.byName[n]
	return s != nil && !s.needed && (s.present || s.unknown)
}

// NextSpare returns the first time after t since when a set is spare, zero for none:
// those that have been for longer are due already.
func (c *Cache) NextSpare(t time.Time) time.Time {
	var first time.Time
	for _, since := range c.spare {
		if since.After(t) && (first.IsZero() || since.Before(first)) {
			first = since
		}
	}
	return first
}
