package render

import (
	"slices"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/pkg/tiers"
)

// An endpoint whose pod a ClusterNetworkPolicy selects has one ordered list for each
// direction (ADR 24). A direction in which none of these policies has a rule keeps the
// rules that it would have without them: an allow and a block have other numbers there,
// too. So a policy about ingress changes nothing of egress. A number of a named port that
// no pod serves any more has no rule in a list, as it would make runs of its own.

// Source is what a rule of a list came from. The zero one is the end of the list.
type Source struct {
	Tier  policy.Tier
	Key   policy.Key // of the policy; the zero key for the block that all NetworkPolicies share
	Index int        // of the rule in its direction
	Name  string     // of the rule
}

// TierRule is one ACL of a list.
type TierRule struct {
	ACL   hns.ACL
	Names []ipsets.Name // that its peer names
	From  Source        // what decides
	Via   []Source      // the rules that passed the packet on, in order
}

// Owner returns the policy whose Id the rule has; the zero key for a rule that is no
// policy's own.
func (r TierRule) Owner() policy.Key {
	if r.From.Key == (policy.Key{}) && len(r.Via) > 0 {
		return r.Via[len(r.Via)-1].Key
	}
	return r.From.Key
}

// IsBlock reports whether the rule blocks.
func (r TierRule) IsBlock() bool { return r.ACL.Action == hns.Block }

// BlocksAll reports whether the rule blocks everything of its direction, so that no later
// one is reached.
func (r TierRule) BlocksAll() bool { return r.IsBlock() && r.ACL.MatchesAll() }

// TierList are the rules of both directions, each in order. It never changes.
type TierList struct {
	Rules []TierRule
	// Silent are the policies of which only Deny rules remain, because the pod has too many ACLs.
	Silent []policy.Key
}

// Names returns the sets that the rules of a list name, but for those that are never
// reached.
func (l *TierList) Names() (out []ipsets.Name) {
	ended := map[hns.Direction]bool{}
	for _, r := range l.Rules {
		if !ended[r.ACL.Direction] {
			ended[r.ACL.Direction] = r.BlocksAll()
			out = append(out, r.Names...)
		}
	}
	return out
}

// Blocks reports the directions in which a list has a rule that blocks.
func (l *TierList) Blocks() map[hns.Direction]bool {
	out := map[hns.Direction]bool{}
	for _, r := range l.Rules {
		out[r.ACL.Direction] = out[r.ACL.Direction] || r.ACL.Action == hns.Block
	}
	return out
}

// Rivals returns the rules of a list that block, to stand before the list of another
// pod to which the endpoint may belong.
func (l *TierList) Rivals() (out []TierRule) {
	for _, r := range l.Rules {
		if r.ACL.Action == hns.Block {
			r.ACL.Priority = hns.PriorityShield
			out = append(out, r)
		}
	}
	return out
}

// Lines turns the lines of one direction into ACLs. Each run of one action has a
// priority of its own. What allows everything in the end is not among them: the
// allow-all pair does that, of the CNI or ours.
func Lines(dir policy.Direction, lines []tiers.Line[Source], id func(ipsets.Name) string) []TierRule {
	var out []TierRule
	for _, l := range lines {
		if !l.Block && l.Tail && l.From == (Source{}) && len(l.Atom.Sets)+len(l.Atom.Blocks)+len(l.Atom.Ports) == 0 {
			continue
		}
		r := ruleOfLine(dir, l)
		peer := policy.Peer{Sets: l.Atom.Sets, Blocks: l.Atom.Blocks}
		if def, is := l.Inside(); is {
			peer = policy.Peer{Sets: append(slices.Clone(l.Atom.Sets), def.Name)}
		}
		r.Names = peer.Sets
		matches := []portMatch{{}}
		if len(l.Atom.Ports) > 0 {
			matches = matchesOf(l.Atom.Ports)
		}
		for _, text := range peerTexts(peer, id) {
			for _, m := range matches {
				one := r
				one.ACL.Protocols = m.protocol
				meet(&one.ACL, m.ports, text.text, text.literals)
				out = append(out, one)
			}
		}
	}
	return out
}

// ruleOfLine is the rule of a line as far as it says nothing of peers and ports.
func ruleOfLine(dir policy.Direction, l tiers.Line[Source]) TierRule {
	r := TierRule{From: l.From, Via: l.Via, ACL: hns.ACL{
		ID: acl.IDOfBlock(dir), Action: hns.Allow, Direction: acl.DirectionOf(dir), RuleType: hns.Switch, Priority: hns.PriorityTiers + uint16(l.Run),
	}}
	if l.Tail {
		r.ACL.Priority = hns.PriorityTail + uint16(l.Run)
	}
	if l.Block {
		r.ACL.Action = hns.Block
	}
	if r.Owner() != (policy.Key{}) {
		r.ACL.ID = state.ACLID(r.Owner())
	}
	return r
}

// BlockIPv6 returns a rule that blocks all IPv6 traffic of a direction, with a priority before
// every rule that accepts. It is needed because sets hold IPv4 addresses only, so no other rule
// can deny an IPv6 peer. from is the source of a policy rule that may deny IPv6 traffic.
func BlockIPv6(dir policy.Direction, from Source) TierRule {
	r := ruleOfLine(dir, tiers.Line[Source]{Block: true, From: from})
	r.ACL.Priority, r.ACL.RemoteAddresses = hns.PriorityShield, hns.EveryIPv6
	return r
}

// MaxRuns bounds the runs of a list, as each has a priority: of the tail there are
// fewer numbers than before it.
const MaxRuns = int(hns.PriorityDefault - hns.PriorityTail)

// Dump says what a rule came from.
func (s Source) Dump() state.TierSource {
	out := state.TierSource{Tier: s.Tier.String(), Rule: s.Index, Name: s.Name}
	if name, is := s.Key.Cluster(); is {
		out.Policy = name
	} else if s.Key.Name != "" {
		out.Policy = s.Key.String()
	}
	return out
}
