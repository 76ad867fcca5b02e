package ipsets

import (
	"net/netip"
	"slices"
	"strings"
)

// Observed is one of our sets as it was read from HNS.
type Observed struct {
	ID, Name string
	Nested   bool
	Values   []string
}

// Drift is a set that differs in HNS from its recorded actual state.
type Drift struct {
	Name     Name
	Needed   bool // a rule needs the set, so that a plan brings it back
	Appeared bool // it was not there
	Gone     bool // it is not there any more
	Retyped  bool // a leaf is a nested set now, or the other way round
	Added    int  // members that it did not have
	Missing  int  // members that it lost
}

// any reports whether there is a difference.
func (d Drift) any() bool {
	return d.Appeared || d.Gone || d.Retyped || d.Added+d.Missing > 0
}

// Wrote records that an Add or Update succeeded: HNS has exactly these values. The
// set is no suspect any more, and not rejected. It costs their number.
func (c *Cache) Wrote(v SetValue) {
	s := c.entry(v.Name)
	s.group = 0
	if s.rejected {
		c.setRejected(s, false)
	}
	c.apply(s, v.Values)
	c.setReading(s, reading{unread: true})
}

// Removed records that the set is not in HNS any more. It costs its members.
func (c *Cache) Removed(n Name) {
	if s := c.find(n); s != nil {
		c.absent(s)
	}
}

// Used records that HNS rejected the removal of the set because a rule or set in HNS names
// it. The grace period of an unneeded set begins anew.
func (c *Cache) Used(n Name) {
	if s := c.find(n); s != nil {
		if _, spare := c.spare[s]; spare {
			c.spare[s] = c.Now
		}
	}
}

// Unknown records that a write of the set may or may not have been done. Until
// it is observed the set is neither written nor deleted, and while it is a
// nested one no leaf is deleted.
func (c *Cache) Unknown(n Name) {
	s := c.entry(n)
	s.unknown = true
	c.refresh(s)
}

// Observe records a complete listing of our sets in HNS: the listed sets are
// there, and no others. Sets for which skip is true, because they were
// written after the listing began or are paused, are left as they are; nil skips nothing.
//
// A set that is not defined here becomes an orphan. It has no desired members, and
// waits for PlanRemovals, or for the definition of a set with its id.
//
// It returns the sets that differ from their recorded actual state, in no order.
func (c *Cache) Observe(sets []Observed, skip func(Name) bool) (drifted []Drift) {
	c.observed = true
	listed := make(map[string]bool, len(sets))
	for _, nested := range []bool{false, true} { // members before what contains them
		for _, o := range sets {
			if o.Nested != nested {
				continue
			}
			listed[o.ID] = true
			if drift := c.observe(o, skip); drift.any() {
				drifted = append(drifted, drift)
			}
		}
	}
	for id, s := range c.byID {
		if listed[id] || !s.present && !s.unknown || skip != nil && skip(s.name) {
			continue
		}
		if !s.unknown {
			drifted = append(drifted, Drift{Name: s.name, Gone: true})
		}
		c.absent(s)
	}
	for i, drift := range drifted {
		s := c.byName[drift.Name]
		drifted[i].Needed = s != nil && s.needed
	}
	return drifted
}

// observe records one listed set and returns how it differs from its recorded
// state.
func (c *Cache) observe(o Observed, skip func(Name) bool) Drift {
	name := nameOf(o)
	s := c.byID[o.ID]
	if s != nil && s.name.known() {
		name = s.name
	}
	if skip != nil && skip(name) {
		return Drift{}
	}
	if s == nil {
		s = c.entry(name)
	}
	if s.present && !s.unknown && s.name == name && s.nested == o.Nested && c.respelled(s, o.Values) {
		return Drift{}
	}
	c.setReading(s, reading{})
	known, alien := !s.unknown, s.alien
	if s.name != name {
		c.rename(s, name)
	}
	var drift Drift
	if s.nested != o.Nested {
		drift = c.apply(s, nil)
		drift.Retyped = !alien
		s.alien = true
		c.refresh(s)
		known = known && !alien
	} else {
		drift = c.apply(s, o.Values)
	}
	if !known {
		return Drift{}
	}
	drift.Name = name
	return drift
}

// apply records the values of a set in HNS and returns how they differ from the recorded
// ones. A value that none of our sets can have makes the set differ until the set is
// written again.
func (c *Cache) apply(s *set, values []string) Drift {
	drift, strange, alien := Drift{Appeared: !s.present}, 0, s.alien
	s.present, s.unknown = true, false
	s.entries = len(values)
	if s.nested {
		members := make([]*set, 0, len(values))
		for _, v := range values {
			m := c.byID[v]
			if m == nil {
				strange++
				continue
			}
			members = append(members, m)
		}
		drift.Added, drift.Missing = c.setMembers(s, members)
		s.orphaned = s.orphaned && drift.Added+drift.Missing == 0 // with these members it may be known
	} else {
		addrs := make([]addr, 0, len(values))
		for _, v := range values {
			a, ok := parseAddr(v)
			if !ok {
				strange++
				continue
			}
			addrs = append(addrs, a)
		}
		came, went := s.addrs.setActual(addrs)
		drift.Added, drift.Missing = len(came), len(went)
	}
	if s.alien = strange > 0; !alien {
		drift.Added += strange
	}
	c.refresh(s)
	return drift
}

// absent records that a set is not in HNS.
func (c *Cache) absent(s *set) {
	c.setReading(s, reading{})
	s.present, s.unknown, s.alien = false, false, false
	s.entries = 0
	s.addrs.setActual(nil)
	c.setMembers(s, nil)
	c.refresh(s)
}

// HNS may show a member in another form than the one in which it was sent, and the agent may not know
// that form. Then the first read after the agent's write has some unreadable values in place of the
// same number of sent values, and nothing else differs. If the next read shows the same values, and
// nothing was written between the two reads, that is how HNS spells the set. After a read that
// showed the set as written, another program made any difference.

// Spelling is how HNS shows members of a set.
type Spelling struct {
	Name  Name
	Sent  []string // values that HNS does not show, sorted
	Shown []string // values that HNS shows in their place, sorted
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

// Doubted reports whether a read showed a set in another form than it was written in, so that the
// next read shows whether HNS spells it this way. Until then the set counts as written.
func (c *Cache) Doubted() bool { return len(c.doubted) > 0 }

// TakeSpellings returns the spellings that were learned since the last call.
func (c *Cache) TakeSpellings() []Spelling {
	out := c.spellings
	c.spellings = nil
	return out
}

// respelled reports whether values that were read are, or may be, the written values in HNS's
// spelling. Then they are no drift. The cost is linear in the number of values, if no read has shown
// the set as written since its last write.
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
// else differs. A value with a known meaning, such as a block, is no spelling.
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

// read returns a value in the form in which the agent writes it, and whether the set may have it.
func (c *Cache) read(s *set, v string) (string, bool) {
	if s.nested {
		return v, c.byID[v] != nil
	}
	a, ok := parseAddr(v)
	return a.String(), ok
}

// means reports whether a value that the agent does not write has a known meaning: a block or a range
// of addresses, or the id of a set that is no member of this one. Letter case has no meaning.
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
