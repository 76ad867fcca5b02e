package dataplane

import (
	"cmp"
	"slices"
	"strings"

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

// source is what a rule of a list came from. The zero one is the end of the list.
type source struct {
	tier  policy.Tier
	key   policy.Key // of the policy; the zero key for the block that all NetworkPolicies share
	index int        // of the rule in its direction
	name  string     // of the rule
}

// tierRule is one ACL of a list.
type tierRule struct {
	acl   hns.ACL
	names []ipsets.Name // that its peer names
	ids   []string      // of these
	from  source        // what decides
	via   []source      // the rules that passed the packet on, in order
	// asked is the rule before HNS refused it, the same where it did not.
	asked hns.ACL
	// shared: it is no part of the order, and left out when HNS refuses it.
	shared bool
}

// owner returns the policy whose Id the rule has; the zero key for a rule that is no
// policy's own.
func (r tierRule) owner() policy.Key {
	if r.from.key == (policy.Key{}) && len(r.via) > 0 {
		return r.via[len(r.via)-1].key
	}
	return r.from.key
}

// isBlock reports whether the rule blocks and has to stay.
func (r tierRule) isBlock() bool { return r.acl.Action == hns.Block && !r.shared }

// blocksAll reports whether what comes after the rule is never reached.
func (r tierRule) blocksAll() bool { return r.isBlock() && r.acl.MatchesAll() }

// tierList are the rules of both directions, each in order. It never changes.
type tierList struct {
	rules []tierRule
	// denied are policies of which a Pass blocks, and silent those of which nothing is
	// accepted, for want of room; both in order.
	denied, silent []policy.Key
}

// as returns the rules as the refusals of sets leave them: one that allows is left out
// when it needs a rejected set, and one that blocks loses the condition.
func (l *tierList) as(rejected func(ipsets.Name) bool) []tierRule {
	out := make([]tierRule, 0, len(l.rules))
	for _, r := range l.rules {
		if slices.ContainsFunc(r.names, rejected) {
			if r.acl.Action == hns.Allow {
				continue
			}
			r = r.without(rejected)
		}
		out = append(out, r)
	}
	return out
}

// without returns a rule that blocks without some of its sets: it matches more, and
// without any of them all peers.
func (r tierRule) without(gone func(ipsets.Name) bool) tierRule {
	var names []ipsets.Name
	var ids []string
	for i, n := range r.names {
		if !gone(n) {
			names, ids = append(names, n), append(ids, r.ids[i])
		}
	}
	r.names, r.ids = names, ids
	r.acl.LocalAddresses, r.acl.RemoteAddresses = "", ""
	meet(&r.acl, cmp.Or(r.acl.LocalPorts, r.acl.RemotePorts), setText(ids), false)
	return r
}

// setText joins Ids of sets, as canonical rules have them.
func setText(ids []string) string {
	return strings.Join(slices.Sorted(slices.Values(ids)), ",")
}

// names returns the sets that the rules of a list name, but for those that are never
// reached.
func (l *tierList) names() (out []ipsets.Name) {
	ended := map[hns.Direction]bool{}
	for _, r := range l.rules {
		if !ended[r.acl.Direction] {
			ended[r.acl.Direction] = r.blocksAll()
			out = append(out, r.names...)
		}
	}
	return out
}

// blocks reports the directions in which a list has a rule that blocks.
func (l *tierList) blocks() map[hns.Direction]bool {
	out := map[hns.Direction]bool{}
	for _, r := range l.rules {
		out[r.acl.Direction] = out[r.acl.Direction] || r.acl.Action == hns.Block
	}
	return out
}

// rivals returns the rules of a list that block, to stand before the list of another
// pod to which the endpoint may belong.
func (l *tierList) rivals() (out []tierRule) {
	for _, r := range l.rules {
		if r.acl.Action == hns.Block {
			r.acl.Priority = hns.PriorityShield
			out = append(out, r)
		}
	}
	return out
}

// renderLines turns the lines of one direction into ACLs. Each run of one action has a
// priority of its own. What allows everything in the end is not among them: the
// allow-all pair does that, of the CNI or ours.
func renderLines(dir policy.Direction, lines []tiers.Line[source], id func(ipsets.Name) string) []tierRule {
	var out []tierRule
	for _, l := range lines {
		if !l.Block && l.Tail && l.From == (source{}) && len(l.Atom.Sets)+len(l.Atom.Blocks)+len(l.Atom.Ports) == 0 {
			continue
		}
		r := ruleOfLine(dir, l)
		peer := policy.Peer{Sets: l.Atom.Sets, Blocks: l.Atom.Blocks}
		if def, is := l.Inside(); is {
			peer = policy.Peer{Sets: append(slices.Clone(l.Atom.Sets), def.Name)}
		}
		r.names = peer.Sets
		for _, n := range r.names {
			r.ids = append(r.ids, id(n))
		}
		matches := []portMatch{{}}
		if len(l.Atom.Ports) > 0 {
			matches = matchesOf(l.Atom.Ports)
		}
		for _, text := range peerTexts(peer, id) {
			for _, m := range matches {
				one := r
				one.acl.Protocols = m.protocol
				meet(&one.acl, m.ports, text.text, text.literals)
				out = append(out, one)
			}
		}
	}
	return out
}

// ruleOfLine is the rule of a line as far as it says nothing of peers and ports.
func ruleOfLine(dir policy.Direction, l tiers.Line[source]) tierRule {
	r := tierRule{from: l.From, via: l.Via, acl: hns.ACL{
		ID: acl.IDOfBlock(dir), Action: hns.Allow, Direction: acl.DirectionOf(dir), RuleType: hns.Switch, Priority: hns.PriorityTiers + uint16(l.Run),
	}}
	if l.Tail {
		r.acl.Priority = hns.PriorityTail + uint16(l.Run)
	}
	if l.Block {
		r.acl.Action = hns.Block
	}
	if r.owner() != (policy.Key{}) {
		r.acl.ID = state.ACLID(r.owner())
	}
	return r
}

// maxRuns bounds the runs of a list, as each has a priority: of the tail there are
// fewer numbers than before it.
const maxRuns = int(hns.PriorityDefault - hns.PriorityTail)

// cost tells what an atom comes to in ACLs whose Ids have up to so many bytes.
func cost(a tiers.Atom, idBytes int) (acls, bytes int) {
	texts, ports := 1, 0
	if len(a.Ports) > 0 {
		matches := matchesOf(a.Ports)
		texts = len(matches)
		for _, m := range matches {
			ports += len(m.ports)
		}
	}
	if len(a.Sets) > 0 {
		return texts, texts*(bytesPerACL+idBytes+(len(a.Sets)+1)*bytesPerID) + ports
	}
	chunks := max(1, (len(a.Blocks)+hns.MaxAddressesPerACL-1)/hns.MaxAddressesPerACL)
	return texts * chunks, chunks*(texts*(bytesPerACL+idBytes)+ports) + texts*len(a.Blocks)*bytesPerBlock
}
