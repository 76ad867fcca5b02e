package acl

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// An endpoint whose pod a ClusterNetworkPolicy selects has one ordered list for each
// direction (ADR 24). A direction in which none of these policies has a rule keeps the
// rules that it would have without them: an allow and a block have other numbers there,
// too. So a policy about ingress changes nothing of egress. A number of a named port that
// no pod serves any more has no rule in a list, as it would make runs of its own.

// NewGroup turns the entries of a NetworkPolicy into ACLs (docs/design.md, "What a policy
// means"). Time and memory are those of its peers, its ports and the ACLs: the atoms of an
// entry share the text of its ports.
func NewGroup(key policy.Key, isolates [2]bool, entries []Entry, id func(ipsets.Name) string) *Group {
	r := newRenderer(id)
	for _, e := range entries {
		for _, a := range e.Atoms {
			r.render(Rule{From: e.From, Unused: a.Unused, ACL: hns.ACL{
				ID: state.ACLID(key), Action: hns.Allow, Direction: DirectionOf(e.Direction), RuleType: hns.Switch, Priority: hns.PriorityAllow,
			}}, a)
		}
	}
	out := &Group{Key: key, Isolates: isolates, Rules: r.out}
	for _, rule := range r.out {
		if !rule.Unused {
			out.served = append(out.served, rule.ACL)
		}
	}
	return out
}

// Lines turns the lines of one direction into ACLs. Each run of one action has a
// priority of its own. What allows everything in the end is not among them: the
// allow-all pair does that, of the CNI or ours.
func Lines(dir policy.Direction, lines []Line, id func(ipsets.Name) string) []Rule {
	r := newRenderer(id)
	for _, l := range lines {
		if l.Block || !l.Tail || l.From != (Source{}) || !l.Atom.everything() {
			r.render(ruleOfLine(dir, l), l.Atom)
		}
	}
	return r.out
}

// ruleOfLine is the rule of a line as far as it says nothing of peers and ports.
func ruleOfLine(dir policy.Direction, l Line) Rule {
	r := Rule{From: l.From, Via: l.Via, ACL: hns.ACL{
		ID: idOfBlock(dir), Action: hns.Allow, Direction: DirectionOf(dir), RuleType: hns.Switch, Priority: hns.PriorityTiers + uint16(l.Run),
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
func BlockIPv6(dir policy.Direction, from Source) Rule {
	r := ruleOfLine(dir, Line{Block: true, From: from})
	r.ACL.Priority, r.ACL.RemoteAddresses = hns.PriorityShield, hns.EveryIPv6
	return r
}

// MaxRuns bounds the runs of a list, as each has a priority: of the tail there are
// fewer numbers than before it.
const MaxRuns = int(hns.PriorityDefault - hns.PriorityTail)

// renderer collects ACLs.
type renderer struct {
	id    func(ipsets.Name) string
	out   []Rule
	seen  map[ruleID]int // its place in out
	ports portTexts
	texts map[string]*string // port conditions; of one text there is one
}

func newRenderer(id func(ipsets.Name) string) *renderer {
	return &renderer{id: id, seen: map[ruleID]int{}, ports: portTexts{}, texts: map[string]*string{}}
}

// ruleID is what tells one ACL from another. It costs little to compare: the ports, of which
// there may be many, stand in it by their place.
type ruleID struct {
	head  hns.ACL // without peer and ports
	ports *string
	peer  string
}

// render adds the ACLs of an atom to a rule that says nothing of peers and ports.
func (r *renderer) render(rule Rule, a Atom) {
	for _, peer := range r.peers(a, rule.IsBlock()) {
		for _, m := range r.ports.of(a.Ports) {
			r.add(rule, m, peer)
		}
	}
}

// add adds one ACL; a second one that is equal adds its source to the first. With set Ids
// Local is the source and Remote the destination; a literal is always Remote.
func (r *renderer) add(rule Rule, match portMatch, peer peerText) {
	ports := r.texts[match.ports]
	if ports == nil {
		ports = &match.ports
		r.texts[match.ports] = ports
	}
	rule.ACL.Protocols = match.protocol
	is := ruleID{rule.ACL, ports, peer.text}
	if at, twice := r.seen[is]; twice {
		was := &r.out[at]
		last := was.From.Index
		if n := len(was.Also); n > 0 {
			last = was.Also[n-1]
		}
		if last != rule.From.Index {
			was.Also = append(was.Also, rule.From.Index)
		}
		return
	}
	in := rule.ACL.Direction == hns.In
	if in {
		rule.ACL.LocalPorts = *ports
	} else {
		rule.ACL.RemotePorts = *ports
	}
	if in && !peer.literals {
		rule.ACL.LocalAddresses = peer.text
	} else {
		rule.ACL.RemoteAddresses = peer.text
	}
	rule.Names = peer.names
	r.seen[is] = len(r.out)
	r.out = append(r.out, rule)
}

// portMatch is the protocol and port condition of an ACL.
type portMatch struct{ protocol, ports string }

// portTexts has the conditions that lists of ports make, each by its memory.
type portTexts map[*policy.Port][]portMatch

// of returns the conditions that ports with numbers, the fewest, make: one for each protocol.
func (t portTexts) of(all []policy.Port) []portMatch {
	if len(all) == 0 {
		return []portMatch{{}}
	}
	if out, is := t[&all[0]]; is {
		return out
	}
	var out []portMatch
	var text []byte
	for i := range all {
		if text = appendRange(text, all[i].First, all[i].Last); i+1 < len(all) && all[i+1].Protocol == all[i].Protocol {
			text = append(text, ',')
			continue
		}
		out = append(out, portMatch{protocolNumber(all[i].Protocol), string(text)})
		text = text[:0]
	}
	t[&all[0]] = out
	return out
}

// peerText is the peer of an ACL as the rule has it: Ids of sets, with their names, or
// at most MaxAddressesPerACL literals.
type peerText struct {
	text     string
	names    []ipsets.Name
	literals bool
}

// peers writes the peers of an atom.
func (r *renderer) peers(a Atom, block bool) (out []peerText) {
	if len(a.Sets) == 0 && len(a.Blocks) > 0 {
		for blocks := range slices.Chunk(a.Blocks, hns.MaxAddressesPerACL) {
			out = append(out, peerText{text: blockText(blocks), literals: true})
		}
		return out
	}
	names := a.Sets
	if def, is := a.Inside(block); is {
		names = append(slices.Clone(names), def.Name)
	}
	ids := make([]string, len(names))
	for i, name := range names {
		ids[i] = r.id(name)
	}
	slices.Sort(ids) // as canonical rules have them
	return []peerText{{text: strings.Join(ids, ","), names: names}}
}

// Inside defines the set that an ACL names in place of Blocks, if it names sets, too: no ACL
// has both. It reports false if there is none.
func (a Atom) Inside(block bool) (policy.SetDef, bool) {
	if len(a.Sets) == 0 || len(a.Blocks) == 0 {
		return policy.SetDef{}, false
	}
	def := policy.InBlocks(a.Blocks)
	if block {
		def = def.Deny()
	}
	return def, true
}

// protocolNumber returns the IANA number; SCTP as Calico renders it on HNS.
func protocolNumber(p policy.Protocol) string {
	switch p {
	case policy.TCP:
		return "6"
	case policy.UDP:
		return "17"
	case policy.SCTP:
		return "132"
	}
	panic(fmt.Sprintf("BUG: protocol %q was compiled", p))
}

// appendRange appends nothing for every port, a number, or a range.
func appendRange(text []byte, first, last uint16) []byte {
	if first == 0 {
		return text
	}
	text = strconv.AppendUint(text, uint64(first), 10)
	if last != first {
		text = strconv.AppendUint(append(text, '-'), uint64(last), 10)
	}
	return text
}

// blockText joins literals; a single address is written without a mask.
func blockText(blocks []netip.Prefix) string {
	texts := make([]string, len(blocks))
	for i, b := range blocks {
		texts[i] = b.String()
		if b.IsSingleIP() {
			texts[i] = b.Addr().String()
		}
	}
	return strings.Join(texts, ",")
}

// The bytes of an ACL's JSON beside its Id, its ports and its peer, and those of one
// member of a peer with the comma behind it.
const (
	bytesPerACL   = 192
	bytesPerID    = len("azure-npm-") + 20 + 1
	bytesPerBlock = len("255.255.255.255/31") + 1
)

// longACL is the length of the JSON above which an ACL counts as several.
const longACL = 320

// acls returns as how many ACLs one with so many bytes of JSON counts.
func acls(bytes int) int { return max(1, (bytes+longACL-1)/longACL) }

// aclsOfPeer returns as how many ACLs a peer counts, with an ACL for each of matches.
func aclsOfPeer(matches []portMatch, sets, blocks, idBytes int) (n int) {
	for _, m := range matches {
		perACL := bytesPerACL + idBytes + len(m.ports) + sets*bytesPerID
		if whole := blocks / hns.MaxAddressesPerACL; whole > 0 {
			n += whole * acls(perACL+hns.MaxAddressesPerACL*bytesPerBlock)
		}
		if rest := blocks % hns.MaxAddressesPerACL; rest > 0 || blocks == 0 {
			n += acls(perACL + rest*bytesPerBlock)
		}
	}
	return n
}

// SizeOf returns as how many ACLs entries count whose Ids have up to so many bytes, without
// rendering them. It is an upper bound: equal rules and short Ids of sets make less.
func SizeOf(entries []Entry, idBytes int) (n int) {
	texts := portTexts{}
	for _, e := range entries {
		for _, a := range e.Atoms {
			if !a.Unused {
				n += a.cost(texts, idBytes)
			}
		}
	}
	return n
}

// SizeOfRules returns as how many ACLs rules count.
func SizeOfRules(rules []Rule) (n int) {
	for _, r := range rules {
		a := r.ACL
		n += acls(bytesPerACL + len(a.ID) + len(a.LocalAddresses) + len(a.RemoteAddresses) + len(a.LocalPorts) + len(a.RemotePorts))
	}
	return n
}

// Cost returns as how many ACLs an atom counts whose Ids have up to so many bytes.
func Cost(a Atom, idBytes int) int { return a.cost(portTexts{}, idBytes) }

func (a Atom) cost(texts portTexts, idBytes int) int {
	sets, blocks := len(a.Sets), len(a.Blocks)
	if sets > 0 && blocks > 0 {
		sets, blocks = sets+1, 0 // of the blocks there is a set
	}
	return aclsOfPeer(texts.of(a.Ports), sets, blocks, idBytes)
}
