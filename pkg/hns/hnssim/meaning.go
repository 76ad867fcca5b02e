package hnssim

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"time"

	"github.com/winnpm/winnpm/pkg/hns"
)

// Meaning says what a switch does otherwise with the rules and sets that HNS has: each field
// is one assumption of WinNPM that a node may refute. The zero value is the meaning that
// hns.Decide has, and the only one under which an agent is ever tested. The others are for
// tests of what looks for them on a node, such as npm doctor.
type Meaning struct {
	CommaIsOr      bool // several sets in a field: one of them is enough
	SetsBySide     bool // Local names the endpoint's own sets and Remote the peer's, as with addresses
	EmptyMatches   bool // a leaf without values matches everything
	EmptyListNone  bool // a nested set without members matches nothing
	FillerMatches  bool // a nested set whose members are all empty matches everything
	Frozen         bool // a rule keeps the members that its sets had when it was written
	HigherWins     bool // the greater priority counts
	LateOnes       bool // priorities from 65000 on are one, and of those a Block wins
	DefaultAllows  bool // what no rule matches passes
	AddressesBySet bool // with addresses Local is the source and Remote the destination, as with sets
	AnyIsTCP       bool // a rule without protocol is for TCP
	HostPair       bool // without an Allow of type Host nothing passes an endpoint that has rules
	Stateless      bool // replies need a rule: see Reply
	Resets         bool // a write to an endpoint cuts its connections: whoever has some looks at it

	// Gap is for how long an endpoint has no rules after an Update of it, and Lag after which
	// time the switch follows a write to an endpoint. Both need Options.Now.
	Gap, Lag time.Duration
}

// setMeaning gives the switch another meaning from now on; the zero value is the usual one.
func (s *Sim) setMeaning(m Meaning) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meaning = nil
	if m != (Meaning{}) {
		s.meaning = &m
	}
}

// past are policies that an endpoint had.
type past struct {
	until    time.Time
	policies []policy
}

// replace gives an endpoint its policies by a write of the client; s.mu must be held. Update
// says that it is one that takes the place of all.
func (s *Sim) replace(e *endpoint, next []policy, update bool) {
	if m := s.meaning; m != nil && s.now != nil {
		now := s.now()
		// Bounded by the writes within the lag.
		e.past = slices.DeleteFunc(e.past, func(p past) bool { return !now.Before(p.until.Add(m.Lag)) })
		if m.Lag > 0 {
			e.past = append(e.past, past{now, e.policies})
		}
		if update {
			e.bareUntil = now.Add(m.Gap)
		}
	}
	if s.meaning != nil && s.meaning.Frozen {
		next = frozen(next)
	}
	e.setPolicies(next)
}

// frozen has rules that have sets as they are now.
func frozen(policies []policy) []policy {
	out := slices.Clone(policies)
	for i, p := range out {
		if p.rule == nil {
			continue
		}
		r := *p.rule
		for _, field := range []*hns.Addresses{&r.Local, &r.Remote} {
			sets := make([]*hns.Set, len(field.Sets))
			for j, at := range field.Sets {
				sets[j] = copySet(at)
			}
			field.Sets = sets
		}
		out[i].rule = &r
	}
	return out
}

func copySet(s *hns.Set) *hns.Set {
	out := &hns.Set{Type: s.Type, Spans: slices.Clone(s.Spans)}
	for _, m := range s.Members {
		out.Members = append(out.Members, copySet(m))
	}
	return out
}

// inForce are the policies that the switch heeds now.
func (m *Meaning) inForce(e *endpoint, now time.Time) []policy {
	if now.Before(e.bareUntil) {
		return nil
	}
	for _, p := range e.past {
		if now.Before(p.until.Add(m.Lag)) {
			return p.policies
		}
	}
	return e.policies
}

// decide is hns.Decide with this meaning.
func (m *Meaning) decide(rules iter.Seq[*hns.Rule], dir hns.Direction, p Packet) (Verdict, error) {
	if _, err := p.Own(dir); err != nil {
		return Verdict{}, err
	}
	filtered, host := false, false
	var matched []hns.ACL
	for r := range rules {
		if r.ACL.RuleType == hns.Host {
			host = host || r.ACL.Direction == dir && r.ACL.Action == hns.Allow
			continue
		}
		filtered = true
		if r.ACL.Direction != dir {
			continue
		}
		if r.Source {
			return Verdict{}, fmt.Errorf("%w: rule %s asks for source ports", hns.ErrInvalid, r.ACL.ID)
		}
		if m.matches(r, p) {
			matched = append(matched, r.ACL)
		}
	}
	switch {
	case m.HostPair && filtered && !host:
		return Verdict{Default: true}, nil
	case len(matched) == 0:
		return Verdict{Default: true, Allowed: !filtered || m.DefaultAllows}, nil
	}
	return m.best(matched)
}

// best decides between the rules that match.
func (m *Meaning) best(matched []hns.ACL) (Verdict, error) {
	slices.SortStableFunc(matched, func(a, b hns.ACL) int { return m.rank(a) - m.rank(b) })
	var v Verdict
	blocks := false
	for _, a := range matched {
		if m.rank(a) == m.rank(matched[0]) {
			v.Matched = append(v.Matched, a)
			blocks = blocks || a.Action == hns.Block
		}
	}
	for _, a := range v.Matched {
		if a.Action != v.Matched[0].Action && !m.LateOnes {
			return Verdict{}, fmt.Errorf("%w: rules %s and %s match with priority %d and different actions", hns.ErrInvalid, a.ID, v.Matched[0].ID, a.Priority)
		}
	}
	v.Allowed = !blocks
	return v, nil
}

// rank is lower for the rule that counts.
func (m *Meaning) rank(a hns.ACL) int {
	n := int(a.Priority)
	if m.LateOnes {
		n = min(n, 65000)
	}
	if m.HigherWins {
		n = -n
	}
	return n
}

// matches reports whether a rule matches a packet of its direction.
func (m *Meaning) matches(r *hns.Rule, p Packet) bool {
	if !r.MatchesPort(&p) || m.AnyIsTCP && r.Protocol == hns.EveryProtocol && p.Protocol != 6 {
		return false
	}
	if p.IsIPv6() {
		return r.MatchesIPv6()
	}
	own, peer := p.Dst, p.Src
	if r.ACL.Direction == hns.Out {
		own, peer = p.Src, p.Dst
	}
	local, remote := [2]netip.Addr{own, p.Src}, [2]netip.Addr{peer, p.Dst} // literal, member
	if m.SetsBySide {
		local[1], remote[1] = own, peer
	}
	if m.AddressesBySet {
		local[0], remote[0] = p.Src, p.Dst
	}
	return m.field(r.Local, local[0], local[1]) && m.field(r.Remote, remote[0], remote[1])
}

// field reports whether one address field matches.
func (m *Meaning) field(a hns.Addresses, literal, member netip.Addr) bool {
	if (len(a.Literals) > 0 || a.IPv6) && !a.Literals.Contain(literal) {
		return false
	}
	has := func(s *hns.Set) bool { return m.has(s, member) }
	if m.CommaIsOr && len(a.Sets) > 0 {
		return slices.ContainsFunc(a.Sets, has)
	}
	return !slices.ContainsFunc(a.Sets, func(s *hns.Set) bool { return !has(s) })
}

// has reports whether a set has an address.
func (m *Meaning) has(s *hns.Set, a netip.Addr) bool {
	switch {
	case s.Type == hns.IPSet:
		return s.Spans.Contain(a) || m.EmptyMatches && len(s.Spans) == 0
	case len(s.Members) == 0:
		return !m.EmptyListNone
	case slices.ContainsFunc(s.Members, func(in *hns.Set) bool { return in.Spans.Contain(a) }):
		return true
	}
	return m.FillerMatches && !slices.ContainsFunc(s.Members, func(in *hns.Set) bool { return len(in.Spans) > 0 })
}
