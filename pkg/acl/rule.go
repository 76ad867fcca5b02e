package acl

import (
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// Atom is traffic that one ACL can match, or a few that share everything but their
// protocol. A packet is in it when each part says so.
type Atom struct {
	// Sets must all contain the peer. In a Rule they have plain names. An atom that
	// names Doubt or a deny twin counts where the rule blocks, and is left out where it
	// allows.
	Sets []ipsets.Name
	// Blocks: one of them must contain the peer. None means everyone. They are sorted and the
	// fewest, as in a policy.Peer.
	Blocks []netip.Prefix
	// Ports: one of them must match; none means everything, ICMP included. They are the
	// fewest and have numbers, no names.
	Ports []policy.Port
	// Unused: see SourcedACL.
	Unused bool
}

// everything reports whether every packet is in the atom.
func (a Atom) everything() bool {
	return len(a.Sets) == 0 && everyone(a.Blocks) && len(a.Ports) == 0
}

// everyone reports whether blocks hold every address; IPv6 is not considered.
func everyone(blocks []netip.Prefix) bool { return len(blocks) == 0 || blocks[0].Bits() == 0 }

// ResolvedRule is a rule of a policy that is about one endpoint, with numbers for its named
// ports. If a peer serves the named port, addresses in doubt may serve it under any number. So a
// rule that denies or passes this port has additional atoms for these addresses: Doubt, and all ports
// of the protocol.
type ResolvedRule struct {
	Direction policy.Direction
	Action    policy.Action
	Atoms     []Atom // an OR; none match nothing
	From      Source
}

// Source is the rule of a policy from which an ACL was made. Without a Key it is the block that all
// NetworkPolicies share, or no policy.
type Source struct {
	Tier  policy.Tier
	Key   policy.Key
	Index int    // of the rule in its direction
	Name  string // of the rule
}

// Dump returns the source as dumps show it.
func (s Source) Dump() state.TierSource {
	out := state.TierSource{Tier: s.Tier.String(), Rule: s.Index, Name: s.Name}
	if name, is := s.Key.Cluster(); is {
		out.Policy = name
	} else if s.Key.Name != "" {
		out.Policy = s.Key.String()
	}
	return out
}

// Ports resolves named ports. In an ingress rule the selected pod itself serves the port; in an egress
// rule the peers serve it, possibly under several numbers.
type Ports interface {
	Own(name string, proto policy.Protocol) (number uint16, ok bool)
	Served(at Reach) []ServedPort
}

// ServedPort is one number of a named port within a reach.
type ServedPort struct {
	Port   policy.Port // with its name
	Set    ipsets.Name
	Number uint16
	Unused bool
}

// Resolve returns a rule with numbers for its named ports. Peers of one reach have the same
// numbers. The cost grows with the ports that the pods serve, not with the ports that the rule has.
func Resolve(r policy.Rule, from Source, own string, ports Ports) ResolvedRule {
	out := ResolvedRule{Direction: r.Direction, Action: r.Action, From: from}
	numbers := make([]policy.Port, 0, len(r.Ports))
	asked, found := map[policy.Port]bool{}, map[Reach][]Atom{}
	for _, p := range r.Ports {
		if p.Name == "" {
			numbers = append(numbers, p)
		} else if r.Direction == policy.Egress {
			asked[p] = true
		} else if number, ok := ports.Own(p.Name, p.Protocol); ok {
			numbers = append(numbers, policy.Port{Protocol: p.Protocol, First: number, Last: number})
		}
	}
	numbers = policy.Fewest(numbers)
	for _, peer := range r.Peers {
		if len(asked) > 0 {
			at := ReachOf(own, peer)
			if _, is := found[at]; !is {
				found[at] = atomsOf(ports.Served(at), asked)
			}
			for _, a := range found[at] {
				a.Sets = append(slices.Clone(peer.Sets), a.Sets...) // with blocks, the set is of those inside
				out.Atoms = append(out.Atoms, a)
			}
		}
		if len(r.Ports) == 0 || len(numbers) > 0 {
			out.Atoms = append(out.Atoms, Atom{Sets: peer.Sets, Blocks: peer.Blocks, Ports: numbers})
		}
	}
	return out
}

// atomsOf returns the traffic to the pods that serve one of the ports that are asked for.
func atomsOf(served []ServedPort, asked map[policy.Port]bool) (out []Atom) {
	for _, s := range served {
		if asked[s.Port] {
			port := policy.Port{Protocol: s.Port.Protocol, First: s.Number, Last: s.Number}
			out = append(out, Atom{Sets: []ipsets.Name{s.Set}, Ports: []policy.Port{port}, Unused: s.Unused})
		}
	}
	return out
}

// NamedPorts returns the ports that have a name.
func NamedPorts(ports []policy.Port) []policy.Port {
	return slices.DeleteFunc(slices.Clone(ports), func(p policy.Port) bool { return p.Name == "" })
}

// Reach is where the peers of an egress rule can be, as a policy sees it.
type Reach struct {
	// Own is the namespace of the policy. Its numbers come first, so other namespaces cannot
	// displace them.
	Own    string
	Blocks string // as BlocksInName has them, "" for none
	// Among is the set of the namespaces, or of the namespace, that the peers are in. It is zero for
	// blocks and for everyone.
	Among ipsets.Name
}

// ReachOf returns where a peer of a policy can be. It costs the peer's blocks.
func ReachOf(own string, peer policy.Peer) Reach {
	at := Reach{Own: own, Blocks: BlocksInName(peer.Blocks)}
	for _, n := range peer.Sets {
		if n.Kind() == ipsets.KindNamespace || n.Kind() == ipsets.KindNamespaceSelector {
			at.Among = n
		}
	}
	return at
}

// String words a reach for a warning.
func (at Reach) String() string {
	switch {
	case at.Blocks != "":
		return fmt.Sprintf("%.100s", at.Blocks)
	case at.Among != ipsets.Name{}:
		return fmt.Sprintf("%.100s", at.Among)
	}
	return "everyone"
}

// BlocksInName returns the text of blocks for the name of a set. For more than four blocks it is the
// first block, the number of the others and a hash, so that the name stays readable.
func BlocksInName(blocks []netip.Prefix) string {
	if len(blocks) == 0 {
		return ""
	}
	text := blockText(blocks)
	if len(blocks) <= 4 {
		return text
	}
	h := fnv.New128a()
	_, _ = h.Write([]byte(text)) // never fails
	return fmt.Sprintf("%s+%d-%x", blocks[0], len(blocks)-1, h.Sum(nil))
}
