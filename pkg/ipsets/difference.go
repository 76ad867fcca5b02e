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
// needed ones that are not there yet.
func (p *Copy) Differences() map[string]Difference {
	out := map[string]Difference{}
	for i := range p.sets {
		s := &p.sets[i]
		left := slices.ContainsFunc(s.members, func(m mark[*set]) bool { return m.bits&leftOut != 0 })
		if s.isLate || s.unknown || s.present && (s.alien || left || s.differs() || p.unfilled(s)) {
			d := Difference{Unknown: s.unknown || s.alien, Since: s.late}
			if s.present {
				d.Missing, d.Surplus = p.difference(s)
			}
			out[s.id] = d
		}
	}
	return out
}

// unfilled reports whether a nested set is in HNS without its permanent member.
func (p *Copy) unfilled(s *portrait) bool {
	if !s.name.Nested() || !s.present {
		return false
	}
	for m := range having(s.members, applied) {
		if p.name(m) == Empty() {
			return false
		}
	}
	return true
}

// difference returns the members that HNS lacks and those that it has besides, in
// order. Of an undefined set what HNS has is what is shown.
func (p *Copy) difference(s *portrait) (missing, surplus []string) {
	if p.unfilled(s) {
		missing = append(missing, Empty().String())
	}
	differs := func(bits uint8, text string) {
		switch {
		case bits&(wanted|leftOut) != 0 && bits&applied == 0:
			missing = append(missing, text)
		case bits&(wanted|leftOut) == 0 && bits&applied != 0:
			surplus = append(surplus, text)
		}
	}
	if s.defined {
		for _, m := range s.addrs {
			differs(m.bits, m.key.String())
		}
		for _, m := range s.members {
			if n := p.name(m.key); n != Empty() {
				differs(m.bits, n.String())
			}
		}
	}
	slices.SortFunc(missing, compareTexts)
	slices.SortFunc(surplus, compareTexts)
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
