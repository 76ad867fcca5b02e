// Package tracer says what the switch of a Windows node does with a packet. It
// goes by what HNS shows, the settings of an endpoint's policies and the values of
// the network's sets, and by nothing that the agent thinks of it.
//
// It is a second opinion on hns.Decide: written from the facts about HNS alone, without
// a line of pkg/hns, and deliberately naive. Facts N.N in the comments are rows of
// README.md, each with its source. What the facts do not tell is an error.
package tracer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// ErrUnknown is what Decide fails with when the facts do not tell what the switch does.
var ErrUnknown = errors.New("what the switch does is not known")

// Set is a SetPolicy of a network, in the words of the wire (Facts 2, hcsshim
// SetPolicySetting).
type Set struct {
	ID     string
	Type   string // IPSET or NESTEDIPSET
	Values string // addresses and blocks, or Ids of sets; separated by commas
}

// Policy is a policy of an endpoint, as it is read back.
type Policy struct {
	Type     string
	Settings []byte // JSON
}

// Direction is that of a rule, seen from the endpoint.
type Direction string

// The directions (Facts 3.1).
const (
	In  Direction = "In"
	Out Direction = "Out"
)

// Packet is the first of a connection: replies need no rule (Facts 3.7).
type Packet struct {
	Src, Dst netip.Addr
	Protocol uint8  // 6 TCP, 17 UDP, 132 SCTP
	Port     uint16 // of the destination
}

// Verdict is what happens to a packet.
type Verdict struct {
	Allowed bool
	// Deciding are the Ids of the rules that match with the best priority, in the
	// order of the endpoint; none when no rule matches.
	Deciding []string
}

// Network is the sets of a network.
type Network struct{ sets map[string]*set }

// set is a Set taken apart. A NESTEDIPSET has members, an IPSET has blocks.
type set struct {
	nested  bool
	members []*set
	blocks  []netip.Prefix
}

// NewNetwork reads the sets of a network. It fails with ErrUnknown for one whose
// values are not of its type, IPv6 included: nobody has ever seen that work
// (Facts 2.1).
func NewNetwork(sets []Set) (Network, error) {
	n := Network{sets: map[string]*set{}}
	for _, s := range sets {
		switch read := (&set{nested: s.Type == "NESTEDIPSET"}); {
		case s.Type != "IPSET" && !read.nested:
			return Network{}, fmt.Errorf("%w: set %s is of type %q", ErrUnknown, s.ID, s.Type)
		case n.sets[s.ID] != nil:
			return Network{}, fmt.Errorf("%w: two sets are %s", ErrUnknown, s.ID)
		default:
			n.sets[s.ID] = read
		}
	}
	for _, s := range sets {
		if err := n.fill(n.sets[s.ID], s.Values); err != nil {
			return Network{}, fmt.Errorf("set %s: %w", s.ID, err)
		}
	}
	return n, nil
}

// fill reads the values of a set. Sets nest one level deep; of more there is no
// evidence (Facts 2.1).
func (n Network) fill(s *set, values string) error {
	if values == "" {
		return nil
	}
	for _, value := range strings.Split(values, ",") {
		if s.nested {
			member := n.sets[value]
			if member == nil || member.nested {
				return fmt.Errorf("%w: member %q is no IPSET", ErrUnknown, value)
			}
			s.members = append(s.members, member)
			continue
		}
		block, ok := parseBlock(value)
		if !ok {
			return fmt.Errorf("%w: value %q", ErrUnknown, value)
		}
		s.blocks = append(s.blocks, block)
	}
	return nil
}

// contains reports whether the set has an address. An empty IPSET has none; a
// NESTEDIPSET has what any of its members has, but one without members has
// everything (Facts 2.1, acn ipsetmanager.go:66-70).
func (s *set) contains(a netip.Addr) bool {
	if !s.nested {
		return anyContains(s.blocks, a)
	}
	return len(s.members) == 0 || slices.ContainsFunc(s.members, func(m *set) bool { return anyContains(m.blocks, a) })
}

func anyContains(blocks []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(blocks, func(b netip.Prefix) bool { return b.Contains(a) })
}

// parseBlock reads an IPv4 address or block; one with host bits is neither.
func parseBlock(text string) (netip.Prefix, bool) {
	if !strings.Contains(text, "/") {
		text += "/32"
	}
	b, err := netip.ParsePrefix(text)
	return b, err == nil && b.Addr().Is4() && b.Masked() == b
}

// Endpoint is an endpoint with its rules of the switch.
type Endpoint struct {
	addrs []netip.Addr
	rules []rule
}

// Endpoint reads the policies of an endpoint with these addresses. Only ACLs
// filter; Host rules are of another layer than the switch (Facts 3.3). How tiered
// rules go together with ACLs is not known (Facts 4): it fails with ErrUnknown for
// them, and for an ACL that cannot be read.
func (n Network) Endpoint(addrs []netip.Addr, policies []Policy) (*Endpoint, error) {
	e := &Endpoint{addrs: addrs}
	for i, p := range policies {
		if p.Type == "TierAcl" {
			return nil, fmt.Errorf("%w: policy %d is a tier", ErrUnknown, i)
		}
		if p.Type != "ACL" {
			continue
		}
		var a acl
		if err := json.Unmarshal(p.Settings, &a); err != nil {
			return nil, fmt.Errorf("%w: policy %d: %w", ErrUnknown, i, err)
		}
		r, err := n.rule(a)
		if err != nil {
			return nil, fmt.Errorf("policy %d, %s: %w", i, a.ID, err)
		}
		if !r.host {
			e.rules = append(e.rules, r)
		}
	}
	return e, nil
}

// Decide says what the switch does with a packet that the endpoint receives (In)
// or sends (Out). It fails with ErrUnknown when the packet is not the endpoint's,
// or a rule that may have a say cannot be judged.
//
// Without any rule everything passes; with any, also of the other direction,
// nothing does by default (Facts 3.4, hcsshim#1059, Windows-Containers#616). The
// lower priority wins; of one number with both actions the order is not known
// (Facts 3.2).
func (e *Endpoint) Decide(dir Direction, p Packet) (Verdict, error) {
	own := p.Dst
	if dir == Out {
		own = p.Src
	}
	if dir != In && dir != Out || !p.Src.Is4() || !p.Dst.Is4() || !slices.Contains(e.addrs, own) {
		return Verdict{}, fmt.Errorf("%w: %s from %v to %v", ErrUnknown, dir, p.Src, p.Dst)
	}
	var matching []*rule
	for i := range e.rules {
		switch r := &e.rules[i]; {
		case r.direction != dir:
		case r.sourcePorts:
			return Verdict{}, fmt.Errorf("%w: %s asks for the port of the source", ErrUnknown, r.id)
		case r.matches(p):
			matching = append(matching, r)
		}
	}
	if len(matching) == 0 {
		return Verdict{Allowed: len(e.rules) == 0}, nil
	}
	best := slices.MinFunc(matching, func(a, b *rule) int { return cmp.Compare(a.priority, b.priority) })
	v := Verdict{Allowed: best.allow}
	for _, r := range matching {
		if r.priority != best.priority {
			continue
		}
		if r.allow != best.allow {
			return Verdict{}, fmt.Errorf("%w: priority %d has both actions", ErrUnknown, r.priority)
		}
		v.Deciding = append(v.Deciding, r.id)
	}
	return v, nil
}
