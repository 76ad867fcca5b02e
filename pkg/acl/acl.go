// Package acl turns the rules of policies into the ACLs of one endpoint. A ResolvedRule has numbers for
// its named ports (Resolve). A SourcedACL has the fields that HNS gets, and its sources. Render turns the ordered
// rules of an endpoint into its ACLs (ADR 24), a List has the desired ACLs of an endpoint, and Plan finds
// the requests that lead from the ACLs of an endpoint to others without a gap. Everything here is a
// value: it knows no cluster state, no answer of HNS and no time.
package acl

import (
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// SourcedACL is an ACL of HNS, with the sets that it names and the rules that it came from. It is
// immutable, because endpoints share it.
type SourcedACL struct {
	hns.ACL
	Names []ipsets.Name
	// Unused: a named port number that no pod serves any more. It matches
	// nothing; where it is on an endpoint it may stay until the next Update.
	Unused bool
	From   Source   // the rule that decides
	Rules  []int    // indexes of the rules of the policy From and direction that it came from
	Via    []Source // the rules that passed the packet on, in order
}

// Owner returns the policy whose Id the ACL has, or the zero key for an ACL that belongs to no
// policy.
func (a *SourcedACL) Owner() policy.Key {
	if a.From.Key == (policy.Key{}) && len(a.Via) > 0 {
		return a.Via[len(a.Via)-1].Key
	}
	return a.From.Key
}

// quarantined returns the ACL in its place while its policy is quarantined: nil for one that
// allows, and a block of the whole direction for one that blocks.
func (a *SourcedACL) quarantined() *SourcedACL {
	if a.Action != hns.Block {
		return nil
	}
	wide := *a
	wide.ACL = Everything(a.ACL)
	return &wide
}

// List is the desired ACLs of one endpoint, for the pod that owns it.
type List struct {
	Shared []hns.ACL     // base rules, and the rule that lets the node in
	ACLs   []*SourcedACL // of policies, in the order of each direction
	Unused []*SourcedACL // they need not be there, but may stay
	Tiered bool          // a ClusterNetworkPolicy selects the pod
}

// Without returns the ACLs of policies in order and without duplicates, with some policies
// quarantined: their accepts are left out, and each of their denies blocks everything of its
// direction. It omits all ACLs after one that blocks everything, because no packet reaches them.
func (l *List) Without(out map[policy.Key]bool) []*SourcedACL {
	left := make([]*SourcedACL, 0, len(l.ACLs))
	ended, blocked := map[hns.DirectionType]bool{}, map[hns.ACL]bool{}
	for _, a := range l.ACLs {
		if len(out) > 0 && out[a.Owner()] {
			a = a.quarantined()
		}
		if a == nil || ended[a.Direction] {
			continue
		}
		if a.Action == hns.Block {
			is := a.ACL
			is.ID = "" // several policies may deny the same
			if blocked[is] {
				continue
			}
			blocked[is], ended[a.Direction] = true, a.MatchesAll()
		}
		left = append(left, a)
	}
	return left
}

// Everything returns a rule that matches all packets of its direction.
func Everything(a hns.ACL) hns.ACL {
	a.Protocols, a.LocalPorts, a.RemotePorts, a.LocalAddresses, a.RemoteAddresses = "", "", "", "", ""
	return a
}

// RuleKey returns the key under which a shared rule is quarantined. It has no namespace, unlike the
// keys of policies.
func RuleKey(a hns.ACL) policy.Key { return policy.Key{Name: a.ID} }
