package ipsets

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// WriteVerb is what a request does to its sets.
type WriteVerb uint8

// The verbs.
const (
	Add WriteVerb = iota + 1
	Update
	Remove
)

// String returns the verb as plans show it.
func (v WriteVerb) String() string {
	return [...]string{Add: "create", Update: "update", Remove: "delete"}[v]
}

// SetValue is one set of a request. ID, Text and Values are sent to HNS; Values are addresses in
// numerical order, or the ids of member sets in order. Of a set to be removed they are the values in
// HNS.
type SetValue struct {
	ID     string
	Name   Name
	Text   string
	Values []string
}

// Write is one HNS request: all of its sets, all or nothing.
type Write struct {
	Verb   WriteVerb
	Nested bool
	Sets   []SetValue

	Search bool // for suspects of an earlier one that HNS rejected, or a probe
}

// MaxSets bounds the sets of an Add or a Remove. No rule in HNS names these sets, so the request may be
// split. An Update is never split, because the changes of one event must become visible together.
const MaxSets = 1000

// Plan returns the requests that create and update sets, in order: leaves are created, then
// updated, then nested sets created, then updated. Each is one request, unless more than MaxSets are
// created. They cover the needed sets that differ from their desired members; sets with an unknown
// outcome or rejected content are left out. Requests for suspects come last, group by group: see
// RejectRequest. A member that must wait for another set stays as HNS has it: see HeldBack. A request
// requires the success of the requests before it. Plan costs the size of what it writes.
func (c *Cache) Plan() (plan []Write) {
	sets := make([]*set, 0, len(c.pending))
	waits := len(c.awaited) > 0 // a member may have to wait
	for s := range c.pending {
		writable := s.dirty() && !s.unknown && !s.rejected && (!s.nested || !s.blocked())
		if writable {
			sets = append(sets, s)
		}
		waits = waits || !writable || s.group > 0 || s.name.deny
	}
	slices.SortFunc(sets, func(a, b *set) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.step(), b.step()), Compare(a.name, b.name))
	})
	var h held
	if waits {
		h = c.hold()
	}
	var last *set
	for _, s := range sets {
		var v SetValue
		all := true // that is desired
		if waits {
			v, all = c.allowed(s, h)
		} else {
			v = s.value(desired, nil)
		}
		if !all && !s.moves(v) {
			continue
		}
		full := last != nil && !s.present && len(plan[len(plan)-1].Sets) == MaxSets
		if last == nil || full || s.group != last.group || s.step() != last.step() {
			plan = append(plan, s.request())
		}
		r := &plan[len(plan)-1]
		r.Sets, last = append(r.Sets, v), s
	}
	return plan
}

// step returns the place of the set's request in a plan.
func (s *set) step() int { return 2*count(s.nested) + count(s.present) }

// request returns the request that writes the set, still without it.
func (s *set) request() Write {
	r := Write{Verb: Update, Nested: s.nested, Search: s.group > 0}
	if !s.present {
		r.Verb = Add
	}
	return r
}

// moves reports whether writing the value changes anything.
func (s *set) moves(v SetValue) bool {
	return !s.present || s.alien || !slices.Equal(v.Values, s.value(actual, nil).Values)
}

// RejectRequest records that HNS rejected a request of Plan or Probe as a whole: it rejects a set
// in it, or the request is too large. A set that is alone in the request is rejected, as with
// Reject, and returned. Several sets become suspects, in two groups. Plan asks for each group by
// itself until HNS takes it, or rejects it and it is halved in turn. So a search may stop after
// any request and go on later. RejectRequest costs the sets.
func (c *Cache) RejectRequest(r Write) (rejected Name, is bool) {
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
		c.Reject(sets[0].name)
		return sets[0].name, true
	}
	for i, s := range sets {
		s.group = c.groups + 1 + count(i >= len(sets)/2)
	}
	c.groups += 2
	return Name{}, false
}

// Reject records that HNS rejects the desired content of a defined set. Plans leave the set out,
// and nested sets omit it, until the desired content changes or HNS takes it.
func (c *Cache) Reject(n Name) {
	if s := c.byName[n]; s != nil && s.defined {
		c.setRejected(s, true)
		c.refresh(s)
	}
}

// Rejected reports whether HNS rejects the desired content. Of a nested deny twin every leaf
// counts, as a deny rule would miss an omitted one.
func (c *Cache) Rejected(n Name) bool {
	s := c.byName[n]
	return s != nil && s.rejects()
}

func (s *set) rejects() bool { return s.rejected || s.name.deny && s.members.omits > 0 }

// RejectedSets returns the needed sets that HNS rejects, in no order. It costs the sets that
// plans are about.
func (c *Cache) RejectedSets() []Name {
	var out []Name
	for s := range c.pending {
		if s.rejected {
			out = append(out, s.name)
		}
	}
	return out
}

// Probe returns the request that asks HNS again for a needed set that it rejects, alone. The caller
// must not send it while Plan has requests. Nothing changes until it is recorded.
func (c *Cache) Probe(n Name) (Write, bool) {
	s := c.byName[n]
	if s == nil || !s.rejected || !s.needed || s.unknown || s.blocked() {
		return Write{}, false
	}
	v, all := c.allowed(s, c.hold())
	if !all && !s.moves(v) {
		return Write{}, false
	}
	r := s.request()
	r.Sets, r.Search = []SetValue{v}, true
	return r, true
}

// PlanRemovals returns the requests that delete sets: nested sets first, then leaves.
// They cover the sets in HNS that nothing has needed since idleBefore or
// earlier. They omit sets for which skip, which may be nil, is true, and leaves that a remaining
// nested set may contain. The second request requires the success of the
// first.
func (c *Cache) PlanRemovals(idleBefore time.Time, skip func(Name) bool) (plan []Write) {
	nested, leaf := Write{Verb: Remove, Nested: true}, Write{Verb: Remove}
	going, leaves := map[*set]bool{}, []*set(nil)
	for _, s := range inOrder(c.spare) {
		switch {
		case s.unknown || c.spare[s].After(idleBefore) || skip != nil && skip(s.name):
		case s.nested:
			going[s] = true
			nested.Sets = append(nested.Sets, s.value(actual, nil))
		default:
			leaves = append(leaves, s)
		}
	}
	for s := range c.unknown {
		if s.nested {
			leaves = nil // it may contain any leaf
		}
	}
	for _, s := range leaves {
		if !s.stays(going) {
			leaf.Sets = append(leaf.Sets, s.value(actual, nil))
		}
	}
	for _, r := range [...]Write{nested, leaf} {
		if len(r.Sets) > 0 {
			plan = append(plan, r)
		}
	}
	return plan
}

// blocked reports whether a nested set cannot be written because it is not
// known that a member is there, or because HNS rejects the permanent one, or may.
func (s *set) blocked() bool {
	for m := range s.members.all(desired) {
		if m.unknown && !s.members.has(m, actual) || m.filler() && (m.rejected || m.group > 0 && !m.present) {
			return true
		}
	}
	return false
}

// stays reports whether a nested set that is not going contains the leaf.
func (s *set) stays(going map[*set]bool) bool {
	for l, how := range s.parents {
		if how.actual && !going[l] {
			return true
		}
	}
	return false
}

// value returns a set with the members that have the bit. Of the members in stay it has the actual
// ones.
func (s *set) value(bit uint8, stay map[any]bool) SetValue {
	v := SetValue{ID: s.id, Name: s.name, Text: s.called}
	if !s.nested {
		v.Values = textsOf(s.addrs.take(bit, stay))
		return v
	}
	for _, m := range s.members.take(bit, stay) {
		v.Values = append(v.Values, m.id)
	}
	slices.Sort(v.Values)
	return v
}

// inOrder returns the sets by name.
func inOrder(sets map[*set]time.Time) []*set {
	return slices.SortedFunc(maps.Keys(sets), func(a, b *set) int { return Compare(a.name, b.name) })
}
