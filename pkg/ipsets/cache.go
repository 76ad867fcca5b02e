// Package ipsets keeps the ip sets of a node: which exist, who needs them, and which members they
// have.
//
// A leaf holds addresses; a nested set holds leaves, one level deep. Callers say which members
// are desired. The actual members are those in HNS, as callers report what they wrote and read.
// A plan is the ordered difference.
//
// A set is held by references. Each has an identity, so holding twice is holding once, and a dump
// says who holds a set. A policy, a desired rule or a nested set that should contain it defines
// a set: from then on the caller feeds it, until the last reference of any kind goes. A rule,
// desired or actual, a pin, or a needed nested set makes a set needed: only needed sets are
// written. A leaf that HNS has in a needed nested set, but should not have there, stays defined
// and needed until HNS has the nested set without it.
//
// A set in HNS that is not defined is an orphan: references keep it there as it is, and without
// them it is removed. The caller is told of a needed orphan of a known name, and may define it.
//
// The package is pure: no I/O, no clock, no goroutine. A Cache is not safe for
// concurrent use; its owner locks.
package ipsets

import (
	"fmt"
	"net/netip"
	"time"
)

// Cache holds the sets of a node with their desired and actual members.
//
// Every method that changes one member or reference costs O(1), unless it says
// otherwise; a reference that makes a nested set needed, or no longer so, costs
// its members.
type Cache struct {
	Now time.Time // the time of the following calls, set by the caller

	byName map[Name]*set
	byID   map[string]*set
	// observed: the sets in HNS were read at least once.
	observed bool

	// Lists of work: sets, and since when they are in the list.
	pending map[*set]time.Time // needed, and dirty, unknown or rejected
	spare   map[*set]time.Time // in HNS and not needed
	unknown map[*set]time.Time
	doubted map[*set]time.Time // read otherwise than written, once

	groups  int               // number of groups of suspects so far
	sights  map[string]Sight  // by owner of references; the default is SeesActual
	awaited map[string][]Name // leaves by owner of references; see See

	orphans   []Name     // needed, in HNS and not defined; not taken yet
	spellings []Spelling // learned, not taken yet
}

// NewCache returns an empty Cache.
func NewCache() *Cache {
	return &Cache{
		byName:  map[Name]*set{},
		byID:    map[string]*set{},
		pending: map[*set]time.Time{},
		spare:   map[*set]time.Time{},
		unknown: map[*set]time.Time{},
		doubted: map[*set]time.Time{},
		sights:  map[string]Sight{},
		awaited: map[string][]Name{},
	}
}

// Has reports whether the set is defined, so that the caller sets its desired members. A set that
// is only in HNS is not.
func (c *Cache) Has(n Name) bool {
	s := c.byName[n]
	return s != nil && s.defined
}

// EachOfPod visits the defined sets whose names alone say that they contain a pod: the sets of its
// namespace and of its labels.
func (c *Cache) EachOfPod(namespace string, labels map[string]string, visit func(Name)) {
	twins := func(plain Name) {
		for _, n := range [...]Name{plain, {kind: plain.kind, text: plain.text, deny: true}} {
			if s := c.byName[n]; s != nil && s.defined {
				visit(n)
			}
		}
	}
	twins(Name{kind: KindNamespace, text: namespace})
	for key, value := range labels {
		twins(Name{kind: KindPodLabel, text: key})
		twins(Name{kind: KindPodLabel, text: key + ":" + value})
	}
}

// Lookup returns the name of the set with an id, defined or in HNS. ACLs in HNS name
// sets by id.
func (c *Cache) Lookup(id string) (Name, bool) {
	s := c.byID[id]
	if s == nil {
		return Name{}, false
	}
	return s.name, true
}

// ID returns the id of a set.
func (c *Cache) ID(n Name) string {
	if s := c.byName[n]; s != nil {
		return s.id
	}
	return n.ID()
}

// must returns a defined set of the type, for a change that needs one.
func (c *Cache) must(n Name, nested bool) *set {
	s := c.byName[n]
	if s == nil || !s.defined {
		panic(fmt.Sprintf("BUG: change of %s, which is not defined", n))
	}
	if s.nested != nested {
		panic(fmt.Sprintf("BUG: change of %s with members of the wrong type", n))
	}
	return s
}

// AddAddr adds an IPv4 address to a defined leaf.
func (c *Cache) AddAddr(n Name, a netip.Addr) {
	s := c.must(n, false)
	key, ok := addrOf(a)
	if s.name.kind == KindEmpty || !ok {
		panic(fmt.Sprintf("BUG: address %s for %s", a, n))
	}
	c.setAddr(s, key, desired)
}

// RemoveAddr removes an address from a leaf. An address that is not in it is no error.
func (c *Cache) RemoveAddr(n Name, a netip.Addr) {
	key, ok := addrOf(a)
	if s := c.byName[n]; ok && s != nil {
		c.setAddr(s, key, 0)
	}
}

func (c *Cache) setAddr(s *set, a addr, bit uint8) {
	if s.addrs.setDesired(a, bit) {
		if s.rejected {
			c.setRejected(s, false)
		}
		c.refresh(s)
	}
}

// AddMember makes a leaf a desired member of a defined nested set. It reports whether that
// defined the leaf; then the caller has to fill the leaf, as after Hold.
func (c *Cache) AddMember(nested, member Name) (created bool) {
	s := c.must(nested, true)
	if member.Nested() || !member.known() {
		panic(fmt.Sprintf("BUG: %s as member of %s", member, nested))
	}
	return c.addMember(s, member)
}

// RemoveMember removes a leaf from the desired members. A leaf that is not a member is no error.
func (c *Cache) RemoveMember(nested, member Name) {
	if member == Empty() {
		panic(fmt.Sprintf("BUG: the permanent member of %s removed", nested))
	}
	s, m := c.byName[nested], c.byName[member]
	if s != nil && m != nil {
		c.removeMember(s, m)
	}
}

// HasMember reports whether a leaf is a desired member of a nested set.
func (c *Cache) HasMember(nested, member Name) bool {
	s, m := c.byName[nested], c.byName[member]
	return s != nil && m != nil && m.parents[s].desired
}

// Contains reports whether an address is desired in a leaf, or in a desired
// leaf of a nested set. For a nested set it costs its members.
func (c *Cache) Contains(n Name, a netip.Addr) bool {
	s := c.byName[n]
	key, ok := addrOf(a)
	if s == nil || !ok {
		return false
	}
	for m := range s.members.all(desired | omitted) {
		if m.addrs.has(key, desired) {
			return true
		}
	}
	return s.addrs.has(key, desired)
}

// Len returns the number of desired members; the permanent member of a nested
// set does not count.
func (c *Cache) Len(n Name) int {
	s := c.byName[n]
	switch {
	case s == nil || !s.defined:
		return 0
	case s.nested:
		return s.members.desires + s.members.omits - 1
	}
	return s.addrs.desires
}

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

// Observed reports whether the sets in HNS were ever read.
func (c *Cache) Observed() bool { return c.observed }

// InDoubt reports whether the sets have to be read before one is written: they were never read, or
// the outcome of a write of a needed set is unknown. It costs the unknown sets.
func (c *Cache) InDoubt() bool {
	if !c.observed {
		return true
	}
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

// HasSpare reports whether HNS may have sets that are not needed. If not, the outcome of every write
// is known.
func (c *Cache) HasSpare() bool { return len(c.spare)+len(c.unknown) > 0 }

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
