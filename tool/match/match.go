// Package match decides what the virtual switch does with a packet, given the rules of an endpoint. The
// simulator and kubectl npm trace use it, but not the agent.
package match

import (
	"fmt"
	"iter"
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
func (p Packet) Own(dir hns.Direction) (netip.Addr, error) {
	if (!p.Src.Is4() || !p.Dst.Is4()) && !p.IsIPv6() {
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

// IsIPv6 reports whether both ends of a packet have IPv6 addresses.
func (p Packet) IsIPv6() bool {
	return p.Src.Is6() && p.Dst.Is6() && !p.Src.Is4In6() && !p.Dst.Is4In6()
}

// Decide returns the decision of the switch on a packet at an endpoint. rules are all rules of the
// endpoint; Decide ignores rules of the other direction and Host rules, which belong to another layer. It
// fails with ErrInvalid if the effect of a rule is unknown.
func Decide(rules iter.Seq[*Rule], dir hns.Direction, p Packet) (Verdict, error) {
	d, err := p.decision(dir)
	if err != nil {
		return Verdict{}, err
	}
	var matched []hns.ACL
	for r := range rules {
		counts, err := d.add(r)
		if err != nil {
			return Verdict{}, err
		}
		if !counts {
			continue
		}
		if len(matched) > 0 && r.ACL.Priority < matched[0].Priority {
			matched = nil
		}
		matched = append(matched, r.ACL)
	}
	allowed, err := d.allowed()
	if err != nil {
		return Verdict{}, err
	}
	return Verdict{Allowed: allowed, Matched: matched, Default: len(matched) == 0}, nil
}

// Passes returns Verdict.Allowed of Decide. It is faster, as it does not collect the matching rules; a
// matrix calls it a million times.
func (p Packet) Passes(rules []*Rule, dir hns.Direction) (bool, error) {
	d, err := p.decision(dir)
	if err != nil {
		return false, err
	}
	for _, r := range rules {
		if _, err := d.add(r); err != nil {
			return false, err
		}
	}
	return d.allowed()
}

// decision is the state of a decision while rules are added.
type decision struct {
	packet   Packet
	dir      hns.Direction
	src, dst uint32
	six      bool // the packet is IPv6, and src and dst are unused
	filtered bool
	// The first matching rule of the best priority, and one of that priority with another action.
	first, other *Rule
}

func (p Packet) decision(dir hns.Direction) (decision, error) {
	if _, err := p.Own(dir); err != nil {
		return decision{}, err
	}
	if p.IsIPv6() {
		return decision{packet: p, dir: dir, six: true}, nil
	}
	return decision{packet: p, dir: dir, src: number(p.Src), dst: number(p.Dst)}, nil
}

// add adds the next rule. It reports whether the rule matches with a priority at least as good as the best
// one before it.
func (d *decision) add(r *Rule) (bool, error) {
	if r.ACL.RuleType == hns.Host {
		return false, nil
	}
	d.filtered = true
	switch {
	case r.ACL.Direction != d.dir:
		return false, nil
	case r.Source:
		return false, fmt.Errorf("%w: rule %s asks for source ports", hns.ErrInvalid, r.ACL.ID)
	case d.first != nil && r.ACL.Priority > d.first.ACL.Priority || !d.matches(r):
		return false, nil
	case d.first == nil || r.ACL.Priority < d.first.ACL.Priority:
		d.first, d.other = r, nil
	case d.other == nil && r.ACL.Action != d.first.ACL.Action:
		d.other = r
	}
	return true, nil
}

// allowed returns the decision after all rules were added.
func (d *decision) allowed() (bool, error) {
	switch {
	case d.first == nil:
		return !d.filtered, nil
	case d.other != nil:
		return false, fmt.Errorf("%w: rules %s and %s match with priority %d and different actions", hns.ErrInvalid, d.first.ACL.ID, d.other.ACL.ID, d.first.ACL.Priority)
	}
	return d.first.ACL.Action == hns.Allow, nil
}

// matches reports whether a rule matches the packet. Both must have the same direction.
func (d *decision) matches(r *Rule) bool {
	if !r.MatchesPort(&d.packet) {
		return false
	}
	if d.six {
		return r.matchesIPv6()
	}
	return r.matchesAddresses(d.src, d.dst)
}

// MatchesAddresses reports whether the rule matches the addresses of an IPv4 packet of its
// direction.
func (r *Rule) MatchesAddresses(p *Packet) bool {
	return r.matchesAddresses(number(p.Src), number(p.Dst))
}

// matchesIPv6 reports whether the rule matches the addresses of every IPv6 packet of its direction.
// If it does not, it matches the addresses of no IPv6 packet.
func (r *Rule) matchesIPv6() bool { return r.Local.matchIPv6() && r.Remote.matchIPv6() }

func (r *Rule) matchesAddresses(src, dst uint32) bool {
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
func (s *Set) Has(a netip.Addr) bool { return s.has(number(a)) }

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
