package ipsets

import (
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Difference is how what HNS holds of a set differs from the Members of its
// SetState.
type Difference struct {
	// Missing are members that HNS lacks, Surplus those that it has besides. A
	// nested set that lacks its permanent member is open if it is empty.
	Missing, Surplus []string
	// Unknown: the outcome of a write is not known, or HNS holds values that are
	// never ours.
	Unknown bool
	// Since is since when a set that is needed has not been as it should be; zero
	// for one that nobody needs.
	Since time.Time
}

// Differences returns the sets in HNS that are not as desired, by id, and those
// needed ones that are not there yet. It costs the sets, and the members of
// those that differ.
func (c *Cache) Differences() map[string]Difference {
	out := map[string]Difference{}
	for id, s := range c.byID {
		since, late := c.late[s]
		differs := s.addrs.differs+s.members.differs+len(s.left) > 0 || s.alien || s.unfilled()
		if late || s.unknown || s.present && differs {
			d := Difference{Unknown: s.unknown || s.alien, Since: since}
			if s.present {
				d.Missing, d.Surplus = s.difference()
			}
			out[id] = d
		}
	}
	return out
}

// unfilled reports whether a nested set is in HNS without its permanent member.
func (s *set) unfilled() bool {
	if !s.nested() || !s.present {
		return false
	}
	for m := range s.members.all(applied) {
		if m.filler() {
			return false
		}
	}
	return true
}

// difference returns the members that HNS lacks and those that it has besides, in
// order. Of an undefined set what HNS has is what is shown.
func (s *set) difference() (missing, surplus []string) {
	for a, b := range s.addrs.bits {
		switch {
		case !s.defined || !apart(b, applied):
		case b&wanted != 0:
			missing = append(missing, a.String())
		default:
			surplus = append(surplus, a.String())
		}
	}
	if s.nested() {
		missing, surplus = s.memberDifference()
	}
	slices.SortFunc(missing, compareTexts)
	slices.SortFunc(surplus, compareTexts)
	return missing, surplus
}

func (s *set) memberDifference() (missing, surplus []string) {
	if s.unfilled() {
		missing = append(missing, Empty().String())
	}
	if !s.defined {
		return missing, nil
	}
	for m := range s.asked() {
		if !s.members.is(m, applied) && !m.filler() {
			missing = append(missing, m.name.String())
		}
	}
	for m := range s.members.all(applied) {
		if !m.lists[s].asked {
			surplus = append(surplus, m.name.String())
		}
	}
	return missing, surplus
}

// compareTexts orders addresses by number and names by text.
func compareTexts(a, b string) int {
	x, errX := netip.ParseAddr(a)
	y, errY := netip.ParseAddr(b)
	if errX == nil && errY == nil {
		return x.Compare(y)
	}
	return strings.Compare(a, b)
}
