package ipsets

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// Verb is what a request does to its sets.
type Verb uint8

// The verbs.
const (
	Add Verb = iota + 1
	Update
	Remove
)

// String returns the verb as plans show it.
func (v Verb) String() string {
	return [...]string{Add: "create", Update: "update", Remove: "delete"}[v]
}

// SetValue is one set of a request. ID, Text and Values are what goes on the
// wire: addresses in numerical order, or the ids of member sets in order. Of a
// set to be removed they are what HNS has.
type SetValue struct {
	ID      string
	Name    Name
	Text    string
	Values  []string
	Members []Name // of a nested set, what Values name
}

// Request is one HNS request: all of its sets, all or nothing.
type Request struct {
	Verb   Verb
	Nested bool
	Sets   []SetValue

	Search bool // for suspects of an earlier one that was refused, or a probe
}

// Plan returns the requests that create and update sets, in order: leaves are created, then
// updated, then nested sets created, then updated; each at most one request.
// They cover the needed sets that differ from what is desired; sets with an
// unknown outcome or refused content are left out. Requests for suspects come last:
// see Refuse. A member that rules see in a set that cannot lose it joins no other
// one: see HeldBack. A request stands on the success of those before it. It costs
// the size of what it writes.
func (c *Cache) Plan() []Request {
	h := c.hold(nil)
	skip := func(s *set) bool { return s.unknown || s.refused || !s.dirty() || s.blocked() }
	plan := c.requests(inOrder(c.pending), h, func(s *set) bool { return s.group > 0 || skip(s) })
	if len(c.suspects) > 0 {
		plan = append(plan, c.searches(h, skip)...)
	}
	return nonEmpty(plan)
}

// PlanRemovals returns the requests that delete sets: nested sets first, then leaves.
// They cover the sets in HNS that nothing has needed since idleBefore or
// earlier, without those of skip, which may be nil, and without those that a nested
// set which stays may contain. The second request stands on the success of the
// first.
func (c *Cache) PlanRemovals(idleBefore time.Time, skip func(Name) bool) []Request {
	plan := []Request{{Verb: Remove, Nested: true}, {Verb: Remove}}
	going := map[*set]bool{}
	due := map[*set]bool{}
	for s, since := range c.spare {
		if !s.unknown && !since.After(idleBefore) && (skip == nil || !skip(s.name)) {
			due[s] = true
		}
	}
	order := inOrder(due)
	for _, s := range order {
		if s.nested() {
			going[s] = true
			plan[0].Sets = append(plan[0].Sets, s.value(applied))
		}
	}
	for s := range c.unknown {
		if s.nested() && !s.ending {
			return nonEmpty(plan[:1]) // it may contain any leaf
		}
	}
	for _, s := range order {
		if !s.nested() && !s.stays(going) {
			plan[1].Sets = append(plan[1].Sets, s.value(applied))
		}
	}
	return nonEmpty(plan)
}

// keep reduces the value to what in holds of.
func (v *SetValue) keep(in func(value string) bool) {
	var values []string
	var members []Name
	for i, value := range v.Values {
		if in(value) {
			values = append(values, value)
			if v.Members != nil {
				members = append(members, v.Members[i])
			}
		}
	}
	v.Values, v.Members = values, members
}

// Ready reports whether the set is in HNS with exactly the desired members, and
// that is known; of a nested set, its members too. Members that HNS refuses are
// left out and do not count. It costs the members of a nested set.
func (c *Cache) Ready(n Name) bool {
	s := c.byName[n]
	if s == nil || !s.defined || !s.ready() {
		return false
	}
	for m := range s.members.all(wanted) {
		if !m.ready() {
			return false
		}
	}
	return true
}

// Lags reports whether HNS may show an address in another way than is desired, in a set
// that rules see, or does not say what a set has. Sets that HNS refuses do not count: no
// rule sees them. It costs the sets that differ, and the members of nested ones.
func (c *Cache) Lags(a netip.Addr) bool {
	key, ok := addrOf(a)
	if !ok {
		return false
	}
	for s := range c.pending {
		if !s.refused && (s.unknown || s.shows(key, applied) != s.shows(key, wanted)) {
			return true
		}
	}
	return false
}

// shows reports whether a rule that names the set sees an address in it: in HNS as far as
// known (applied), or as desired (wanted).
func (s *set) shows(a addr, bits uint8) bool {
	for m := range s.members.all(bits) {
		if m.addrs.is(a, bits) {
			return true
		}
	}
	return s.addrs.is(a, bits)
}

// Settled reports whether nothing needed differs, is unknown or is refused.
func (c *Cache) Settled() bool { return len(c.pending) == 0 }

func (s *set) ready() bool { return s.present && !s.unknown && !s.dirty() && !s.refused }

// filled reports whether HNS has the permanent member in the nested set.
func (s *set) filled() bool {
	for m := range s.members.all(applied) {
		if m.filler() {
			return true
		}
	}
	return false
}

// blocked reports whether a nested set cannot be written because it is not
// known that a member is there, or because HNS refuses the permanent one, or may.
func (s *set) blocked() bool {
	for m := range s.members.all(wanted) {
		if m.unknown && !s.members.is(m, applied) || m.filler() && (m.refused || m.group > 0 && !m.present) {
			return true
		}
	}
	return false
}

// stays reports whether a nested set that is not going contains the leaf.
func (s *set) stays(going map[*set]bool) bool {
	for l, how := range s.lists {
		if how.applied && !going[l] {
			return true
		}
	}
	return false
}

// value renders the members that have any of the bits.
func (s *set) value(bits uint8) SetValue {
	v := SetValue{ID: s.id, Name: s.name, Text: s.name.Called()}
	if s.nested() {
		for _, m := range s.members.sorted(bits, func(a, b *set) int { return cmp.Compare(a.id, b.id) }) {
			v.Values = append(v.Values, m.id)
			v.Members = append(v.Members, m.name)
		}
		return v
	}
	v.Values = s.addrTexts(bits)
	return v
}

// addrTexts returns the addresses that have any of the bits, as text in order.
func (s *set) addrTexts(bits uint8) []string {
	return textsOf(slices.AppendSeq(make([]addr, 0, len(s.addrs.bits)), s.addrs.all(bits)))
}

// inOrder returns the sets by name.
func inOrder[V any](sets map[*set]V) []*set {
	return slices.SortedFunc(maps.Keys(sets), func(a, b *set) int { return Compare(a.name, b.name) })
}

// nonEmpty drops requests without sets.
func nonEmpty(plan []Request) []Request {
	plan = slices.DeleteFunc(plan, func(r Request) bool { return len(r.Sets) == 0 })
	if len(plan) == 0 {
		return nil
	}
	return plan
}
