package ipsets

import (
	"maps"
	"slices"
)

// A request that HNS refuses has a set in it that HNS refuses, or is too large. Its
// sets are suspects until they were accepted, or refused alone. Suspects are in
// groups; Plan asks for each group by itself, after everything else, and a group
// that is refused is halved.
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
	switch len(sets) {
	case 0:
		return Name{}, false
	case 1:
		if !sets[0].refused { // else by Probe, once more
			c.Reject(sets[0].name)
		}
		return sets[0].name, true
	}
	c.suspect(sets[:len(sets)/2])
	c.suspect(sets[len(sets)/2:])
	return Name{}, false
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
	s.group = 0
	delete(c.suspects, s)
}

// searches returns the requests for the suspects, without those of skip, group by group.
func (c *Cache) searches(h waits, skip func(*set) bool) (out []Request) {
	groups := map[int]map[*set]struct{}{}
	for s := range c.suspects {
		if groups[s.group] == nil {
			groups[s.group] = map[*set]struct{}{}
		}
		groups[s.group][s] = struct{}{}
	}
	for _, id := range slices.Sorted(maps.Keys(groups)) {
		out = append(out, c.requests(inOrder(groups[id]), h, skip)...)
	}
	for i := range out {
		out[i].Search = true
	}
	return out
}

// requests returns the requests for some sets, without those of skip: leaves are created, then
// updated, then nested sets.
func (c *Cache) requests(sets []*set, h waits, skip func(*set) bool) []Request {
	plan := []Request{{Verb: Add}, {Verb: Update}, {Verb: Add, Nested: true}, {Verb: Update, Nested: true}}
	for _, s := range sets {
		if skip(s) {
			continue
		}
		if v, all := c.allowed(s, h); all || s.moves(v) {
			r := &plan[2*count(s.nested())+count(s.present)]
			r.Sets = append(r.Sets, v)
		}
	}
	return plan
}

// moves reports whether writing the value changes anything.
func (s *set) moves(v SetValue) bool {
	return !s.present || s.alien || !slices.Equal(v.Values, s.value(applied).Values)
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
