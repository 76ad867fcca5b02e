package render

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/winnpm/winnpm/pkg/acl"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// Rules are what one endpoint should have, for the pod that owns it.
type Rules struct {
	Shared []hns.ACL // base rules, and where something isolates the pod the node rule and blocks
	Groups []*Group  // one per policy that selects the pod, sorted by key
	// Tiers has in place of blocks and groups what an endpoint has whose pod a
	// ClusterNetworkPolicy selects; nil of another one.
	Tiers *TierList
}

// Group is the share of one policy. It never changes: endpoints may share it.
type Group struct {
	Key      policy.Key
	Isolates [2]bool
	Rules    []Rule
	served   []hns.ACL // the rules but those that are unused
}

// Rule is one ACL with the sets that it names.
type Rule struct {
	ACL   hns.ACL
	Names []ipsets.Name
	// Unused: a named port number that no pod serves any more. It matches
	// nothing; where it is on an endpoint it may stay until the next Update.
	Unused bool
	From   []int // indexes of the policy's rules of its direction that it came from
}

// ACLs returns the group's rules but those that are unused. They are not to be changed.
func (g *Group) ACLs() []hns.ACL { return g.served }

// Names reports whether the group's rules name one of some sets.
func (g *Group) Names(is func(ipsets.Name) bool) bool {
	return slices.ContainsFunc(g.Rules, func(r Rule) bool { return !r.Unused && slices.ContainsFunc(r.Names, is) })
}

// Ports resolves named ports. Ingress names are those of the selected pod
// itself; egress names are served by the peers, under any number in use there.
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

// Policy turns the rules of a policy into ACLs (docs/design.md, "What a policy means"). Time and
// memory are those of its peers, its ports and the ACLs: the rules of all peers of an
// entry share the text of its ports.
func Policy(c *policy.Policy, ports Ports, id func(ipsets.Name) string) *Group {
	r := renderer{
		out: &Group{Key: c.Key, Isolates: c.Isolates}, aclID: state.ACLID(c.Key), ports: ports, id: id,
		seen: map[ruleID]int{}, texts: map[string]*string{},
	}
	for _, rule := range c.Rules {
		r.entry(rule)
	}
	r.finish()
	return r.out
}

// renderer collects the ACLs of one policy.
type renderer struct {
	out   *Group
	aclID string
	ports Ports
	id    func(ipsets.Name) string
	seen  map[ruleID]int     // its place in out.Rules
	texts map[string]*string // port conditions; of one text there is one
}

// ruleID is what tells one ACL of a policy from another. It costs little to compare:
// the ports, of which there may be many, stand in it by their place.
type ruleID struct {
	dir   policy.Direction
	proto string
	ports *string
	peer  string
}

// entry renders one rule: all peers have the same ports.
func (r *renderer) entry(rule policy.Rule) {
	matches, named := portMatches(rule, r.ports), NewNamedEgress(r.out.Key.Namespace, rule, r.ports)
	for _, p := range rule.Peers {
		for _, s := range named.Towards(p) {
			peer := policy.Peer{Sets: append(slices.Clone(p.Sets), s.Set)} // with blocks, the set is of those inside
			match := portMatch{protocolNumber(s.Port.Protocol), rangeText(s.Number, s.Number)}
			for _, one := range r.peer(peer) {
				r.add(rule, match, one, s.Unused)
			}
		}
		if len(matches) == 0 {
			continue
		}
		for _, peer := range r.peer(p) {
			for _, m := range matches {
				r.add(rule, m, peer, false)
			}
		}
	}
}

// NamedEgress are the named ports of an entry of spec.egress. Peers of one reach have
// the same numbers, and what there is within it, not what is asked for, makes the work.
type NamedEgress struct {
	own   string
	ports Ports
	asked map[policy.Port]bool
	found map[Reach][]ServedPort
}

// NewNamedEgress returns those of a rule of a policy of a namespace, nil for none.
func NewNamedEgress(own string, rule policy.Rule, ports Ports) *NamedEgress {
	named := NamedPorts(rule.Ports)
	if rule.Direction != policy.Egress || len(named) == 0 {
		return nil
	}
	e := &NamedEgress{own: own, ports: ports, asked: map[policy.Port]bool{}, found: map[Reach][]ServedPort{}}
	for _, p := range named {
		e.asked[p] = true
	}
	return e
}

// Asks reports whether a named port is among them.
func (e *NamedEgress) Asks(port policy.Port) bool { return e.asked[port] }

// Towards returns the numbers for a peer.
func (e *NamedEgress) Towards(peer policy.Peer) []ServedPort {
	if e == nil {
		return nil
	}
	at := ReachOf(e.own, peer)
	found, ok := e.found[at]
	if !ok {
		found = slices.DeleteFunc(e.ports.Served(at), func(s ServedPort) bool { return !e.Asks(s.Port) })
		e.found[at] = found
	}
	return found
}

// add puts one ACL to the group; a second one that is equal adds its rule to the first.
func (r *renderer) add(rule policy.Rule, match portMatch, peer peerText, unused bool) {
	ports := r.texts[match.ports]
	if ports == nil {
		ports = &match.ports
		r.texts[match.ports] = ports
	}
	is := ruleID{rule.Direction, match.protocol, ports, peer.text}
	at, twice := r.seen[is]
	if !twice {
		at = len(r.out.Rules)
		r.seen[is] = at
		r.out.Rules = append(r.out.Rules, Rule{ACL: r.acl(is, peer.literals), Names: peer.names, Unused: unused})
	}
	if from := r.out.Rules[at].From; len(from) == 0 || from[len(from)-1] != rule.Index {
		r.out.Rules[at].From = append(from, rule.Index)
	}
}

// acl writes an ACL. With set Ids Local is the source and Remote the destination; a
// literal is always Remote.
func (r *renderer) acl(is ruleID, literals bool) hns.ACL {
	acl := hns.ACL{
		ID:        r.aclID,
		Protocols: is.proto,
		Action:    hns.Allow,
		Direction: acl.DirectionOf(is.dir),
		RuleType:  hns.Switch,
		Priority:  hns.PriorityAllow,
	}
	meet(&acl, *is.ports, is.peer, literals)
	return acl
}

// meet gives an ACL of a direction the conditions for ports and peer.
func meet(acl *hns.ACL, ports, peer string, literals bool) {
	if acl.Direction == hns.In {
		acl.LocalPorts = ports
	} else {
		acl.RemotePorts = ports
	}
	if acl.Direction == hns.In && !literals {
		acl.LocalAddresses = peer
	} else {
		acl.RemoteAddresses = peer
	}
}

// finish sums the group up.
func (r *renderer) finish() {
	for _, rule := range r.out.Rules {
		if !rule.Unused {
			r.out.served = append(r.out.served, rule.ACL)
		}
	}
}

// portMatch is the protocol and port condition of an ACL.
type portMatch struct{ protocol, ports string }

// portMatches returns the conditions that the ports of a rule make, one for each
// protocol; named ones towards peers are not among them. None means no port.
func portMatches(rule policy.Rule, ports Ports) []portMatch {
	if len(rule.Ports) == 0 {
		return []portMatch{{}}
	}
	return matchesOf(Numbered(rule.Direction, rule.Ports, ports.Own))
}

// Numbered returns the ports that have a number: their own, or on ingress the one that
// the selected pod itself serves the name under.
func Numbered(dir policy.Direction, ports []policy.Port, own func(name string, proto policy.Protocol) (uint16, bool)) []policy.Port {
	numbers := make([]policy.Port, 0, len(ports))
	for _, p := range ports {
		if p.Name == "" {
			numbers = append(numbers, p)
		} else if dir == policy.Ingress {
			if number, ok := own(p.Name, p.Protocol); ok {
				numbers = append(numbers, policy.Port{Protocol: p.Protocol, First: number, Last: number})
			}
		}
	}
	return policy.Fewest(numbers)
}

// matchesOf returns the conditions that ports with numbers, the fewest, make: one for
// each protocol.
func matchesOf(all []policy.Port) []portMatch {
	var out []portMatch
	var text []byte
	for i := 0; i < len(all); i++ {
		if text = appendRange(text, all[i].First, all[i].Last); i+1 < len(all) && all[i+1].Protocol == all[i].Protocol {
			text = append(text, ',')
			continue
		}
		out = append(out, portMatch{protocolNumber(all[i].Protocol), string(text)})
		text = text[:0]
	}
	return out
}

// NamedPorts returns the ports that have a name.
func NamedPorts(ports []policy.Port) []policy.Port {
	return slices.DeleteFunc(slices.Clone(ports), func(p policy.Port) bool { return p.Name == "" })
}

// peerText is the peer of an ACL as the rule has it: Ids of sets, with their names, or
// at most MaxAddressesPerACL literals.
type peerText struct {
	text     string
	names    []ipsets.Name
	literals bool
}

// peer writes a peer.
func (r *renderer) peer(peer policy.Peer) []peerText { return peerTexts(peer, r.id) }

func peerTexts(peer policy.Peer, id func(ipsets.Name) string) []peerText {
	if len(peer.Blocks) > 0 {
		var out []peerText
		for blocks := range slices.Chunk(peer.Blocks, hns.MaxAddressesPerACL) {
			out = append(out, peerText{text: blockText(blocks), literals: true})
		}
		return out
	}
	ids := make([]string, len(peer.Sets))
	for i, name := range peer.Sets {
		ids[i] = id(name)
	}
	slices.Sort(ids) // as canonical rules have them
	return []peerText{{text: strings.Join(ids, ","), names: peer.Sets}}
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

// rangeText returns "" for every port, a number, or a range.
func rangeText(first, last uint16) string { return string(appendRange(nil, first, last)) }

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

// RuleKey is how a shared rule stands among the policies of an endpoint: no policy
// is without a namespace.
func RuleKey(a hns.ACL) policy.Key { return policy.Key{Name: a.ID} }
