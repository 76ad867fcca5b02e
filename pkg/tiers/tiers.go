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
	// in an ACL: see Inside.
	Sets []ipsets.Name
	// Blocks: one of them must contain the peer. None means everyone.
	Blocks []netip.Prefix
	// Ports: one of them must match; none means everything, ICMP included. They have
	// numbers, no names.
	Ports []policy.Port
}

// Rule is a rule of a tier that is about one endpoint, with numbers for its named
// ports.
type Rule[From any] struct {
	Action policy.Action
	Atoms  []Atom // an OR; none match nothing
	From   From   // what the rule came from
}
