package ipsets

import (
	"net/netip"
	"time"
)

// Ready reports whether the set is in HNS with exactly the desired members, and
// that is known; of a nested set, its members too. Omitted leaves do not count. It costs the
// members of a nested set.
func (c *Cache) Ready(n Name) bool { return c.whole(n, desired, (*set).ready) }

// Closed reports whether an allow rule may start to name the set: HNS is known to have the set
// with desired members only, and the same holds for the members of a nested set. Desired
// members may still be missing. It costs the members of a nested set.
func (c *Cache) Closed(n Name) bool {
	return c.whole(n, actual, (*set).closed) && (!n.Nested() || c.filled(c.byName[n]))
}

// Covers reports whether a deny rule may start to name a deny twin: HNS is known to have the set
// with every desired member, and the same holds for the members of a nested set. The set may
// have surplus members. Covers is for deny rules what Closed is for allow rules. It costs the
// members of a nested set.
func (c *Cache) Covers(n Name) bool { return c.whole(n, desired, (*set).covers) }

// whole reports whether ok holds for a defined set and for its members that have any of the bits.
func (c *Cache) whole(n Name, bits uint8, ok func(*set) bool) bool {
	s := c.byName[n]
	if s == nil || !ok(s) {
		return false
	}
	for m := range s.members.all(bits) {
		if !ok(m) {
			return false
		}
	}
	return true
}

// known reports whether HNS is known to have the set that callers feed.
func (s *set) known() bool { return s.defined && s.present && !s.unknown }

func (s *set) ready() bool { return s.known() && !s.dirty() && !s.rejected }

func (s *set) closed() bool { return s.known() && !s.alien && !s.rejected && s.surplus == 0 }

func (s *set) covers() bool { return s.known() && !s.rejects() && s.missing == 0 }

// filled reports whether HNS has the permanent member in the nested set.
func (c *Cache) filled(nested *set) bool { return nested.members.has(c.byName[Empty()], actual) }

// Stuck reports whether a needed set has surplus members that the next request may fail to
// remove. For a deny twin see Rejected instead: no set waits for it to lose members.
func (c *Cache) Stuck(n Name) bool {
	s := c.byName[n]
	return s != nil && s.needed && s.defined && s.surplus > 0 && s.uncertain()
}

// Lags reports whether an address is in a needed set in HNS and should not be, or the other way
// round, or whether the members of a needed set are unknown. Rejected sets do not count, as no
// rule names them. It costs the sets that differ, and the members of nested ones.
func (c *Cache) Lags(a netip.Addr) bool {
	key, ok := addrOf(a)
	if !ok {
		return false
	}
	for s := range c.pending {
		if !s.rejected && (s.unknown || s.shows(key, actual) != s.shows(key, desired)) {
			return true
		}
	}
	return false
}

// shows reports whether a rule that names the set sees an address in it: in HNS as far as
// known (actual), or as desired.
func (s *set) shows(a addr, bits uint8) bool {
	for m := range s.members.all(bits) {
		if m.addrs.has(a, bits) {
			return true
		}
	}
	return s.addrs.has(a, bits)
}

// Settled reports whether nothing needed differs, is unknown or is rejected.
func (c *Cache) Settled() bool { return len(c.pending) == 0 }

// Outstanding reports whether the set is not in its desired state: it is needed and differs, or
// is rejected, or the outcome of a write is unknown; or it is not needed and still in
// HNS.
func (c *Cache) Outstanding(n Name) bool {
	s := c.byName[n]
	if s == nil {
		return false
	}
	_, pending := c.pending[s]
	_, spare := c.spare[s]
	return pending || spare || s.unknown
}

// HasUnknown reports whether the outcome of any write is unknown.
func (c *Cache) HasUnknown() bool { return len(c.unknown) > 0 }

// InDoubt is HasUnknown for needed sets. It costs the unknown sets.
func (c *Cache) InDoubt() bool {
	for s := range c.unknown {
		if s.needed {
			return true
		}
	}
	return false
}

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
			out = append(out, Programmed{ID: s.id, Name: s.name.String(), Nested: s.nested, Entries: s.entries})
		}
	}
	return out
}

// Present reports whether the set is in HNS, as far as known.
func (c *Cache) Present(n Name) bool {
	s := c.byName[n]
	return s != nil && s.present
}

// Spare reports whether the set is in HNS, or may be, and is not needed.
func (c *Cache) Spare(n Name) bool {
	s := c.byName[n]
	return s != nil && !s.needed && (s.present || s.unknown)
}

// NextSpare returns the earliest time after t at which a set became spare, zero for none.
// Sets that became spare before are due already.
func (c *Cache) NextSpare(t time.Time) time.Time {
	var first time.Time
	for _, since := range c.spare {
		if since.After(t) && (first.IsZero() || since.Before(first)) {
			first = since
		}
	}
	return first
}
