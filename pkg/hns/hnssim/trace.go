package hnssim

import (
	"fmt"
	"net/netip"

	"github.com/winnpm/winnpm/pkg/hns"
)

// Packet is the first packet of a connection; replies need no rule.
type Packet struct {
	Src, Dst netip.Addr
	Protocol uint8 // 6 TCP, 17 UDP, 132 SCTP
	DstPort  uint16
}

// Verdict says what the switch does with a packet.
type Verdict struct {
	Allowed bool
	// Matched are the rules, canonical, that match with the best priority.
	Matched []hns.ACL
	// Default: no rule matches. Without any rule everything passes, with any
	// rule nothing does (hcsshim#1059, Windows-Containers#616).
	Default bool
}

// tierACL is the policy type of tiered rules (hcsshim TierAclPolicySetting).
const tierACL = "TierAcl"

// Trace says what happens to a packet at one endpoint in one direction. Only
// Switch rules count: Host rules are another layer. It fails when there is no
// such endpoint, when the packet is not the endpoint's, and for every rule
// whose effect is not known, rather than guess.
func (s *Sim) Trace(endpoint string, dir hns.Direction, p Packet) (Verdict, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trace(endpoint, dir, p)
}

// trace is Trace with s.mu held.
func (s *Sim) trace(endpoint string, dir hns.Direction, p Packet) (Verdict, error) {
	fail := func(format string, args ...any) (Verdict, error) {
		return Verdict{}, fmt.Errorf("hnssim: trace %s %s: %w: %s", endpoint, dir, hns.ErrInvalid, fmt.Sprintf(format, args...))
	}
	e := s.endpoints[endpoint]
	if e == nil {
		return Verdict{}, fmt.Errorf("hnssim: trace %s: %w", dir, endpointMissing.of(endpoint))
	}
	if !p.Src.Is4() || !p.Dst.Is4() {
		return fail("packet %v to %v is not IPv4", p.Src, p.Dst)
	}
	own := p.Dst
	switch dir {
	case hns.In:
	case hns.Out:
		own = p.Src
	default:
		return fail("no such direction")
	}
	if !e.has(own) {
		return fail("%v is no address of the endpoint", own)
	}

	src, dst := number(p.Src), number(p.Dst)
	filtered := false
	v := Verdict{Default: true}
	for _, pol := range e.policies {
		if pol.read.Type == tierACL {
			return fail("it has tiered rules")
		}
		r := pol.rule
		if r == nil || r.acl.RuleType == hns.Host {
			continue
		}
		filtered = true
		if r.acl.Direction != dir {
			continue
		}
		if r.source {
			return fail("rule %s asks for source ports", r.acl.ID)
		}
		if len(v.Matched) > 0 && r.acl.Priority > v.Matched[0].Priority || !r.matches(src, dst, p) {
			continue
		}
		if len(v.Matched) > 0 && r.acl.Priority < v.Matched[0].Priority {
			v.Matched = nil
		}
		v.Matched = append(v.Matched, r.acl)
	}
	if len(v.Matched) == 0 {
		v.Allowed = !filtered
		return v, nil
	}
	v.Default = false
	first := v.Matched[0]
	for _, a := range v.Matched {
		if a.Action != first.Action {
			return fail("rules %s and %s match with priority %d and different actions", first.ID, a.ID, a.Priority)
		}
	}
	v.Allowed = first.Action == hns.Allow
	return v, nil
}

func (e *endpoint) has(a netip.Addr) bool {
	for _, addr := range e.addrs {
		if addr == a {
			return true
		}
	}
	return false
}

// matches reports whether the rule matches a packet.
func (r *rule) matches(src, dst uint32, p Packet) bool {
	if r.protocol != anyProtocol && r.protocol != int(p.Protocol) {
		return false
	}
	if !r.ports.contain(p.DstPort) {
		return false
	}
	// With literals Local is the endpoint's own side and Remote the peer; with
	// sets Local is the source and Remote the destination, whatever the direction.
	own, peer := dst, src
	if r.acl.Direction == hns.Out {
		own, peer = src, dst
	}
	return r.local.match(own, src) && r.remote.match(peer, dst)
}

// match reports whether an address field matches; a list of literals means any
// of them, a list of sets all of them.
func (a addresses) match(literal, member uint32) bool {
	for _, at := range a.sets {
		if !at.matches(member) {
			return false
		}
	}
	return len(a.literals) == 0 || a.literals.contain(literal)
}

// matches reports whether the switch takes an address for a member. An empty
// IPSET has none. A NESTEDIPSET has those of its members, but without members
// it matches everything (azure-container-networking ipsetmanager.go:66-70).
func (at *set) matches(n uint32) bool {
	if at.Type == hns.IPSet {
		return at.spans.contain(n)
	}
	for _, m := range at.members {
		if m.spans.contain(n) {
			return true
		}
	}
	return len(at.members) == 0
}
