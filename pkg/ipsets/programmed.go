package ipsets

import "time"

// Programmed is one set in HNS, as far as known.
type Programmed struct {
	ID, Name string
	Nested   bool
	Entries  int // members in HNS, a nested set's permanent one included
	Bytes    int // of its value: the members and the commas between them
}

// Programmed returns the sets that are in HNS, in no order.
func (c *Cache) Programmed() []Programmed {
	var out []Programmed
	for _, s := range c.byID {
		if s.present {
			out = append(out, Programmed{
				ID: s.id, Name: s.name.String(), Nested: s.name.Nested(),
				Entries: s.size.entries, Bytes: s.size.bytes,
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

// Pinned returns the number of sets that a pending update may need, in HNS or
// not.
func (c *Cache) Pinned() int { return c.pinned }

// size is how much HNS holds of a set.
type size struct{ entries, bytes int }

func sizeOf(values []string) size {
	out := size{entries: len(values), bytes: max(len(values)-1, 0)}
	for _, v := range values {
		out.bytes += len(v)
	}
	return out
}
