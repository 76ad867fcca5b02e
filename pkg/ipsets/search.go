package ipsets

import (
	"maps"
	"slices"
)

// A request that HNS refuses has a set in it that HNS refuses, or is too large. Its
// sets are suspects until they were accepted, or refused alone. Suspects are in
// groups; Plan asks for each group by itself, after everything else, and a group
// that is refused is halved. What suspects only lose is asked for first.
//
// What is known of a search is in the Cache, so that it may stop after any request
// and go on later, whatever else happened.

// Refuse records that HNS refused a request of Plan or Probe as a whole. A set that
// is alone in it is refused, as with Reject; several become suspects.
// It returns the set that is refused from now on, if any. It costs the sets.
func (c *Cache) Refuse(r Request) (refused Name, is bool) {
	var sets []*set
	for _, v := range r.Sets {
		if s := c.byName[v.Name]; s != nil && s.defined {
			sets = append(sets, s)
		}
	}
	if len(sets) == 0 {
		return Name{}, false
	}
	h := c.hold(nil)
	losing, others := c.losing(r, sets, h)
	switch {
	case len(sets) == 1 && sets[0].refused: // by Probe, once more
		return sets[0].name, true
	case len(losing) > 0: // what they only lose is asked for before anything else
		c.suspect(losing)
		c.suspect(others)
	case len(sets) > 1:
		c.suspect(sets[:len(sets)/2])
		c.suspect(sets[len(sets)/2:])
	case r.Leaving && c.gains(sets[0], h):
		if sets[0].group == 0 {
			c.suspect(sets)
		}
		sets[0].clings = true
	default:
		c.Reject(sets[0].name)
		return sets[0].name, true
	}
	return Name{}, false
}

// losing divides the sets of a refused request into those that lose something and
// the others, if to ask for the losses alone is to ask for something else.
func (c *Cache) losing(r Request, sets []*set, h waits) (losing, others []*set) {
	if r.Leaving {
		return nil, sets
	}
	differs := false
	for _, s := range sets {
		if s.leaves() {
			losing = append(losing, s)
			differs = differs || c.gains(s, h)
		} else {
			others = append(others, s)
		}
	}
	if !differs && len(others) == 0 {
		return nil, sets
	}
	return losing, others
}

// leaves reports whether a set can be written with what it has to lose taken out,
// and nothing else: it loses something, and HNS did not refuse that. A nested set
// without the permanent member cannot, as an empty one matches everything.
// Deny twins gain before they lose, so they are written as they should be.
func (s *set) leaves() bool {
	return !s.name.Denies() && s.present && !s.unknown && !s.clings && (s.alien || s.surplus()) && (!s.nested() || s.filled())
}

// gains reports whether something may join the set now.
func (c *Cache) gains(s *set, h waits) bool {
	v, _ := c.allowed(s, h)
	return len(v.Values) > len(s.leaving().Values)
}

// leaving is the value of a set with what it has to lose taken out.
func (s *set) leaving() SetValue {
	want := make(map[string]bool, s.addrs.wants+s.members.wants)
	for a := range s.addrs.all(wanted) {
		want[a.String()] = true
	}
	for m := range s.members.all(wanted) {
		want[m.id] = true
	}
	v := s.value(applied)
	v.keep(func(value string) bool { return want[value] })
	return v
}

// suspect makes a group of sets.
func (c *Cache) suspect(sets []*set) {
	if len(sets) == 0 {
		return
	}
	c.groups++
	for _, s := range sets {
		s.group = c.groups
		c.suspects[s] = struct{}{}
	}
}

// clear ends that a set is a suspect.
func (c *Cache) clear(s *set) {
	s.group, s.clings = 0, false
	delete(c.suspects, s)
}

// searches returns the requests for the suspects, without those of skip: what they
// lose first, and then what has nothing to lose, group by group.
func (c *Cache) searches(h waits, skip func(*set) bool) []Request {
	groups := map[int]map[*set]struct{}{}
	for s := range c.suspects {
		if groups[s.group] == nil {
			groups[s.group] = map[*set]struct{}{}
		}
		groups[s.group][s] = struct{}{}
	}
	var leaving, out []Request
	for _, id := range slices.Sorted(maps.Keys(groups)) {
		suspects := inOrder(groups[id])
		for _, nested := range []bool{false, true} {
			parts := c.search(suspects, nested, h, skip)
			leaving, out = append(leaving, parts[0]), append(out, parts[1:]...)
		}
	}
	return append(leaving, out...)
}

// search returns the requests for the suspects of one group and type: what they lose,
// what begins, and what changes.
func (c *Cache) search(suspects []*set, nested bool, h waits, skip func(*set) bool) [3]Request {
	parts := [...]Request{{Verb: Update, Leaving: true}, {Verb: Add}, {Verb: Update}}
	for i := range parts {
		parts[i].Nested, parts[i].Search = nested, true
	}
	for _, s := range suspects {
		if s.nested() != nested || skip(s) {
			continue
		}
		if s.leaves() {
			parts[0].Sets = append(parts[0].Sets, s.leaving())
		} else if v, all := c.allowed(s, h); all || s.moves(v) {
			at := 1 + count(s.present)
			parts[at].Sets = append(parts[at].Sets, v)
		}
	}
	return parts
}

// moves reports whether writing the value changes anything.
func (s *set) moves(v SetValue) bool {
	if s.name.Denies() {
		return !s.present || s.alien || !slices.Equal(v.Values, s.value(applied).Values)
	}
	return !s.present || s.alien || s.surplus() || len(v.Values) > len(s.leaving().Values)
}

// Probe returns the request that asks HNS again for a needed set that it refused,
// alone, if it may be written now. Nothing changes until it is recorded.
func (c *Cache) Probe(n Name) (Request, bool) {
	s := c.byName[n]
	if s == nil || !s.refused || !s.needed || s.unknown || s.blocked() {
		return Request{}, false
	}
	v, all := c.allowed(s, c.hold(s))
	if !all && !s.moves(v) {
		return Request{}, false
	}
	r := Request{Verb: Update, Nested: s.nested(), Sets: []SetValue{v}, Search: true}
	if !s.present {
		r.Verb = Add
	}
	return r, true
}
