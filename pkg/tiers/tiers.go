// Package tiers makes one ordered list of the rules of several tiers, as ADR 24 says:
// what an endpoint gets that a ClusterNetworkPolicy selects. The list is of rules that
// allow or block; no rule of it passes on. It depends on the rules alone: no cluster
// state, no word of HNS.
package tiers

import (
	"net/netip"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// Atom is traffic that one ACL can match, or a few that share everything but their
// protocol. A packet is in it when each part says so.
type Atom struct {
	// Sets must all contain the peer. Together with Blocks they have to be one set more
	// in an ACL: see Line.Inside. In a Rule they have plain names. An atom of a rule that
	// names Doubt or a deny twin counts where the rule blocks, and is left out where it
	// allows.
	Sets []ipsets.Name
	// Blocks: one of them must contain the peer. None means everyone. They are the fewest,
	// sorted, as those of a policy.Peer.
	Blocks []netip.Prefix
	// Ports: one of them must match; none means everything, ICMP included. They are the
	// fewest and have numbers, no names.
	Ports []policy.Port
}

// everything reports whether every packet is in the atom.
func (a Atom) everything() bool {
	return len(a.Sets) == 0 && everyone(a.Blocks) && len(a.Ports) == 0
}

// everyone reports whether blocks hold every address; IPv6 is none of ours.
func everyone(blocks []netip.Prefix) bool { return len(blocks) == 0 || blocks[0].Bits() == 0 }

// Rule is a rule of a tier that is about one endpoint, with numbers for its named
// ports. Where the name is one of a port of the peer, the addresses in doubt may serve it
// under any number. So such a rule that denies or passes has atoms of its own for these:
// Doubt, and all ports of the protocol.
type Rule[From any] struct {
	Action policy.Action
	Atoms  []Atom // an OR; none match nothing
	From   From   // what the rule came from
}

// Line is one rule of the list.
type Line[From any] struct {
	Block bool
	// Tail lines come after all others.
	Tail bool
	// Run counts the changes between allowing and blocking before the line, among those
	// of the tail or among the others. Lines of one run may have one priority, and two of
	// different runs must not.
	Run int
	// Atom has deny twins where the line blocks, and plain names where it allows.
	Atom Atom
	// From is what decides. It is the zero value where a Pass of the tail does, or where
	// the list closes itself.
	From From
	// Via are the rules that passed the packet on, in order. A packet may have been
	// passed by more: a Pass that changes nothing is not in the list.
	Via []From
}

// Inside defines the set that an ACL of the line names in place of Blocks, if it names
// sets, too: no ACL has both. It reports false if there is none.
func (l *Line[From]) Inside() (policy.SetDef, bool) {
	if len(l.Atom.Sets) == 0 || len(l.Atom.Blocks) == 0 {
		return policy.SetDef{}, false
	}
	def := policy.InBlocks(l.Atom.Blocks)
	if l.Block {
		def = def.Deny()
	}
	return def, true
}

// Limit bounds a list.
type Limit struct {
	ACLs int
	// Cost returns as how many ACLs an atom of a line counts, at least one.
	Cost func(Atom) int
}

// Result is a list within its limit.
type Result[From any] struct {
	// Lines are in order: the first whose atom has a packet decides. The last has every
	// packet.
	Lines []Line[From]
	// ACLs is the cost of the lines.
	ACLs int
	// Over: the list is over its limit, so Lines is the one that blocks everything.
	Over bool
}

// BlockAll returns the list that blocks everything.
func BlockAll[From any]() Result[From] {
	return Result[From]{Lines: []Line[From]{{Block: true, Tail: true}}, ACLs: 1, Over: true}
}
