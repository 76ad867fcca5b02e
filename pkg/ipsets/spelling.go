package ipsets

import (
	"net/netip"
	"slices"
	"strings"
)

// HNS may show a member in another form than it was sent, which the agent does not know. Then the
// first read after a write of ours has values without meaning in place of as many that were
// sent, and nothing else differs. If the next read shows the same, and nothing was written
// between the two, that is how HNS spells the set. After a read that was as written, any
// difference is the doing of another program.

// Spelling is how HNS shows members of a set.
type Spelling struct {
	Name  Name
	Sent  []string // values that it does not show, in order
	Shown []string // what it shows in their place, in order
}

// reading is the state of learning how HNS shows a set.
type reading struct {
	unread  bool   // it was not read since it was written
	odd     string // the difference that was read last
	learned bool   // that difference is how HNS spells the set
}

// setReading records the state of learning how HNS shows a set.
func (c *Cache) setReading(s *set, r reading) {
	s.reading = r
	c.list(c.doubted, s, r.odd != "" && !r.learned)
}

// Doubted reports whether a set was read otherwise than it was written, so that the next read
// tells whether HNS spells it so. Until then it counts as it was written.
func (c *Cache) Doubted() bool { return len(c.doubted) > 0 }

// TakeSpellings returns the spellings that were learned since the last call.
func (c *Cache) TakeSpellings() []Spelling {
	out := c.spellings
	c.spellings = nil
	return out
}

// respelled reports whether values that were read are, or may be, what was written in
// HNS's spelling, so that nothing follows from them. It costs their number if the set
// was written since it was last read as it was written.
func (c *Cache) respelled(s *set, values []string) bool {
	was := s.reading
	if !was.unread && was.odd == "" {
		return false
	}
	spelling, is := c.spelling(s, values)
	odd := strings.Join(spelling.Shown, ",") + " for " + strings.Join(spelling.Sent, ",")
	switch {
	case is && was.unread:
		c.setReading(s, reading{odd: odd})
	case is && was.odd == odd:
		if !was.learned {
			c.spellings = append(c.spellings, spelling)
		}
		c.setReading(s, reading{odd: odd, learned: true})
	default:
		c.setReading(s, reading{})
		return false
	}
	return true
}

// spelling returns the members of a set that values show in another form, and whether nothing
// else differs. A value that means something to us, as a block does, is no spelling.
func (c *Cache) spelling(s *set, values []string) (Spelling, bool) {
	out := Spelling{Name: s.name}
	shown := make(map[string]bool, len(values))
	for _, v := range values {
		key, is := c.read(s, v)
		switch {
		case !is && s.means(v):
			return out, false
		case !is:
			out.Shown = append(out.Shown, v)
		default:
			shown[key] = true
		}
	}
	for _, v := range s.value(actual, nil).Values {
		if !shown[v] {
			out.Sent = append(out.Sent, v)
		}
		delete(shown, v)
	}
	slices.Sort(out.Shown)
	return out, len(shown) == 0 && len(out.Shown) > 0 && len(out.Sent) == len(out.Shown)
}

// read returns a value as we write it, if it is one that the set may have.
func (c *Cache) read(s *set, v string) (string, bool) {
	if s.nested {
		return v, c.byID[v] != nil
	}
	a, ok := parseAddr(v)
	return a.String(), ok
}

// means reports whether a value that is none of ours means something: a block or a
// range of addresses, or the id of a set that is no member of this one. Letter case means nothing.
func (s *set) means(v string) bool {
	if !s.nested {
		_, err := netip.ParsePrefix(v)
		return err == nil || strings.Contains(v, "-")
	}
	for m := range s.members.all(actual) {
		if strings.EqualFold(m.id, v) {
			return false
		}
	}
	return true
}
