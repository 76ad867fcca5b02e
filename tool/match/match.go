// Package match decides what the virtual switch does with a packet, given the rules of an endpoint. The
// simulator and kubectl npm trace use it, but not the agent.
package match

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
)

// Packet is the first packet of a connection. The switch passes replies without a rule.
type Packet struct {
	Src, Dst netip.Addr
	Protocol uint8 // 6 TCP, 17 UDP, 132 SCTP
	DstPort  uint16
}

// Verdict is the decision of the switch on a packet.
type Verdict struct {
	Allowed bool
	// Matched are the matching rules of the best priority, in canonical form.
	Matched []hns.ACL
	// Default reports that no rule matches. An endpoint without rules allows such packets; one with rules
	// blocks them (hcsshim#1059, Windows-Containers#616).
	Default bool
}

// Rule is a parsed ACL with the sets that it names.
type Rule struct {
	ACL      hns.ACL // canonical
	Protocol int     // EveryProtocol or a number
	Local    Addresses
	Remote   Addresses
	Ports    Ports // destination ports; empty: every port
	Source   bool  // the ACL restricts source ports
}

// EveryProtocol is the Protocol of a rule for any protocol.
const EveryProtocol = -1

// Addresses is one address field. The zero value matches every address. Otherwise an address must
// be in Literals, or be an IPv6 address if IPv6 is set, and must be in each of Sets.
type Addresses struct {
	Literals Spans
	IPv6     bool
	Sets     []*Set
}

// Set is the content of a set.
type Set struct {
	Type    hns.SetType
	Spans   Spans  // of an IPSET
	Members []*Set // of a NESTEDIPSET
}

// Ports are ranges of ports, both ends included.
type Ports [][2]uint16

// Contain reports whether one of the ranges contains a port. An empty list contains all ports.
func (p Ports) Contain(n uint16) bool {
	for i := range p { // by index: a trace calls this for each rule
		if p[i][0] <= n && n <= p[i][1] {
			return true
		}
	}
	return len(p) == 0
}

// ParsePorts parses a list of ports and ranges in the form of canonical ACLs. It returns false for any
// other text.
func ParsePorts(field string) (Ports, bool) {
	if field == "" {
		return nil, true
	}
	var out Ports
	for text := range strings.SplitSeq(field, ",") {
		first, last, isRange := strings.Cut(text, "-")
		if !isRange {
			last = first
		}
		a, okA := parsePort(first)
		b, okB := parsePort(last)
		if !okA || !okB || a > b {
			return nil, false
		}
		out = append(out, [2]uint16{a, b})
	}
	return out, true
}

func parsePort(text string) (uint16, bool) {
	n, err := strconv.ParseUint(text, 10, 16)
	return uint16(n), err == nil && n > 0 && strconv.FormatUint(n, 10) == text
}

// ParseProtocol parses the protocol of an ACL in canonical form. It returns false for any other text.
func ParseProtocol(text string) (int, bool) {
	if text == "" || text == hns.AnyProtocol {
		return EveryProtocol, true
	}
	n, err := strconv.ParseUint(text, 10, 8)
	return int(n), err == nil && strconv.FormatUint(n, 10) == text
}

// ParseRule parses an ACL in any spelling. find returns the set with an Id, or nil; it gets our Ids in
// lower case. ParseRule fails with ErrInvalid if it does not understand a field, or if an address field has
// a text that is neither an address nor a known set.
func ParseRule(a hns.ACL, find func(id string) *Set) (*Rule, error) {
	a = a.Canonical()
	r := &Rule{ACL: a}
	var ok, okLocal, okRemote bool
	var local, remote Ports
	if r.Protocol, ok = ParseProtocol(a.Protocols); !ok {
		return nil, fmt.Errorf("%w: rule %s: protocol %q", hns.ErrInvalid, a.ID, a.Protocols)
	}
	local, okLocal = ParsePorts(a.LocalPorts)
	remote, okRemote = ParsePorts(a.RemotePorts)
	if !okLocal || !okRemote {
		return nil, fmt.Errorf("%w: rule %s: ports %q %q", hns.ErrInvalid, a.ID, a.LocalPorts, a.RemotePorts)
	}
	r.Ports, r.Source = local, len(remote) > 0
	if a.Direction == hns.Out {
		r.Ports, r.Source = remote, len(local) > 0
	}
	var err error
	if r.Local, err = parseAddresses(a.LocalAddresses, find); err == nil {
		r.Remote, err = parseAddresses(a.RemoteAddresses, find)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: rule %s: %s", hns.ErrInvalid, a.ID, err.Error())
	}
	return r, nil
}

// parseAddresses parses one address field: literals or Ids of sets.
func parseAddresses(field string, find func(id string) *Set) (Addresses, error) {
	var out Addresses
	if field == "" {
		return out, nil
	}
	for text := range strings.SplitSeq(field, ",") {
		if sp, ok := ParseSpan(text); ok {
			out.Literals = append(out.Literals, sp)
		} else if text == hns.EveryIPv6 {
			out.IPv6 = true
		} else if s := find(text); s != nil {
			out.Sets = append(out.Sets, s)
		} else {
			return out, fmt.Errorf("%q is neither an address nor a known set", text)
		}
	}
	out.Literals = out.Literals.Sorted()
	return out, nil
}

// Own returns the packet's address on the endpoint's side: the source of an outbound packet, or the
// destination of an inbound one. It fails with ErrInvalid if the addresses are not both IPv4 or both IPv6,
// or if the direction is invalid.
func (p Packet) Own(dir hns.DirectionType) (netip.Addr, error) {
	if (!p.Src.Is4() || !p.Dst.Is4()) && !p.isIPv6() {
		return netip.Addr{}, fmt.Errorf("%w: packet %v to %v is not IPv4 or IPv6 at both ends", hns.ErrInvalid, p.Src, p.Dst)
	}
	switch dir {
	case hns.In:
		return p.Dst, nil
	case hns.Out:
		return p.Src, nil
	}
	return netip.Addr{}, fmt.Errorf("%w: no such direction", hns.ErrInvalid)
}

// isIPv6 reports whether both ends of a packet have IPv6 addresses.
func (p *Packet) isIPv6() bool {
	return p.Src.Is6() && p.Dst.Is6() && !p.Src.Is4In6() && !p.Dst.Is4In6()
}

// Decide returns the decision of the switch on a packet at an endpoint. rules are all rules of the
// endpoint; Decide ignores rules of the other direction and Host rules, which belong to another layer. It
// fails with ErrInvalid if the effect of a rule is unknown.
func Decide(rules []*Rule, dir hns.DirectionType, p Packet) (Verdict, error) {
	if _, err := p.Own(dir); err != nil {
		return Verdict{}, err
	}
	filtered := false
	matched := make([]*Rule, 0, 8) // on the stack, as a matrix asks a million times
	for _, r := range rules {
		if r.ACL.RuleType == hns.Host {
			continue
		}
		filtered = true
		switch {
		case r.ACL.Direction != dir:
			continue
		case r.Source:
			return Verdict{}, fmt.Errorf("%w: rule %s asks for source ports", hns.ErrInvalid, r.ACL.ID)
		case len(matched) > 0 && r.ACL.Priority > matched[0].ACL.Priority || !r.MatchesPort(&p) || !r.MatchesAddresses(&p):
			continue
		case len(matched) > 0 && r.ACL.Priority < matched[0].ACL.Priority:
			matched = matched[:0]
		}
		matched = append(matched, r)
	}
	if len(matched) == 0 {
		return Verdict{Allowed: !filtered, Default: true}, nil
	}
	first := &matched[0].ACL
	v := Verdict{Allowed: first.Action == hns.Allow, Matched: make([]hns.ACL, len(matched))}
	for i, r := range matched {
		if r.ACL.Action != first.Action {
			return Verdict{}, fmt.Errorf("%w: rules %s and %s match with priority %d and different actions", hns.ErrInvalid, first.ID, r.ACL.ID, first.Priority)
		}
		v.Matched[i] = r.ACL
	}
	return v, nil
}

// MatchesAddresses reports whether the rule matches the addresses of a packet of its direction.
func (r *Rule) MatchesAddresses(p *Packet) bool {
	if p.isIPv6() {
		return r.Local.matchIPv6() && r.Remote.matchIPv6()
	}
	src, dst := Number(p.Src), Number(p.Dst)
	// With literals Local is the endpoint's own side and Remote the peer; with
	// sets Local is the source and Remote the destination, whatever the direction.
	own, peer := dst, src
	if r.ACL.Direction == hns.Out {
		own, peer = src, dst
	}
	return r.Local.match(own, src) && r.Remote.match(peer, dst)
}

// MatchesPort reports whether the rule matches a packet's protocol and port.
func (r *Rule) MatchesPort(p *Packet) bool {
	return (r.Protocol == EveryProtocol || r.Protocol == int(p.Protocol)) && r.Ports.Contain(p.DstPort)
}

// match reports whether an address field matches. One of the literals must match, but all of the sets.
func (a Addresses) match(literal, member uint32) bool {
	for _, s := range a.Sets {
		if !s.has(member) {
			return false
		}
	}
	return len(a.Literals) == 0 && !a.IPv6 || a.Literals.contain(literal)
}

// matchIPv6 reports whether an address field matches every IPv6 address. If it does not, it matches
// no IPv6 address: sets and other literals hold IPv4 addresses only.
func (a Addresses) matchIPv6() bool {
	for _, s := range a.Sets {
		if s.Type == hns.IPSet || len(s.Members) > 0 {
			return false
		}
	}
	return len(a.Literals) == 0 || a.IPv6
}

// Has reports whether the switch treats an IPv4 address as a member. An empty IPSET has no members. A
// NESTEDIPSET has the members of its sets, but without sets it matches every address
// (azure-container-networking ipsetmanager.go:66-70).
func (s *Set) Has(a netip.Addr) bool { return s.has(Number(a)) }

func (s *Set) has(n uint32) bool {
	if s.Type == hns.IPSet {
		return s.Spans.contain(n)
	}
	for _, m := range s.Members {
		if m.Spans.contain(n) {
			return true
		}
	}
	return len(s.Members) == 0
}
