package dataplane

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// The Ids of our rules that belong to no policy. A policy's Id has a dot and a
// namespace has none, so no policy can bear one of these.
const (
	idNode     = hns.ACLIDPrefix + "npm-node"
	idBlockIn  = hns.ACLIDPrefix + "npm-block-in"
	idBlockOut = hns.ACLIDPrefix + "npm-block-out"
	idAllowIn  = hns.ACLIDPrefix + "npm-allow-in"
	idAllowOut = hns.ACLIDPrefix + "npm-allow-out"
)

// ACLID is the Id of the allow rules of a policy. Namespaces have no dot, so
// the policy can be read off unambiguously.
func ACLID(key policy.Key) string { return hns.ACLIDPrefix + key.Namespace + "." + key.Name }

// PolicyOfACL returns the policy that an allow rule's Id names; false for the
// rules that belong to no policy.
func PolicyOfACL(id string) (policy.Key, bool) {
	ns, name, ok := strings.Cut(strings.TrimPrefix(id, hns.ACLIDPrefix), ".")
	if !ok || !strings.HasPrefix(id, hns.ACLIDPrefix) {
		return policy.Key{}, false
	}
	return policy.Key{Namespace: ns, Name: name}, true
}

// wanted is what one endpoint should have, for the pod that owns it.
type wanted struct {
	shared []hns.ACL // node rule and blocks; empty when nothing isolates the pod
	groups []*group  // one per policy that selects the pod, sorted by key
}

// has reports whether there is a group of a policy, or a shared rule, with this
// meaning.
func (w *wanted) has(key policy.Key, digest string) bool {
	if key.Namespace == "" {
		return slices.ContainsFunc(w.shared, func(a hns.ACL) bool { return ruleKey(a) == key && ruleDigest(a) == digest })
	}
	return slices.ContainsFunc(w.groups, func(g *group) bool { return g.key == key && g.digest == digest })
}

// group is the share of one policy. It never changes: endpoints may share it.
type group struct {
	key      policy.Key
	isolates [2]bool
	rules    []rendered
	served   []hns.ACL // the rules but those that are unused
	digest   string    // of the rules' meaning
}

// rendered is one ACL with the sets that it names.
type rendered struct {
	acl   hns.ACL
	names []ipsets.Name
	// unused: a named port number that no pod serves any more. It matches
	// nothing; where it is on an endpoint it may stay until the next Update.
	unused bool
	rules  []int // indexes of the policy's rules of its direction that it came from
}

// acls returns the group's rules that name no rejected set. They are not to be
// changed.
func (g *group) acls(rejected func(ipsets.Name) bool) []hns.ACL {
	if !slices.ContainsFunc(g.rules, func(r rendered) bool { return slices.ContainsFunc(r.names, rejected) }) {
		return g.served
	}
	var out []hns.ACL
	for _, r := range g.rules {
		if !r.unused && !slices.ContainsFunc(r.names, rejected) {
			out = append(out, r.acl)
		}
	}
	return out
}

// portTable resolves named ports. Ingress names are those of the selected pod
// itself; egress names are served by the peers, under any number in use.
type portTable interface {
	own(name string, proto policy.Protocol) (number uint16, ok bool)
	served(f familyKey) []servedPort
}

// servedPort is one number of a named port family.
type servedPort struct {
	set    ipsets.Name
	number uint16
	unused bool
}

// renderGroup turns a policy's rules into ACLs: design section 4, "ACLs".
func renderGroup(c *policy.Compiled, ports portTable, id func(ipsets.Name) string) *group {
	g := &group{key: c.Key, isolates: c.Isolates}
	seen := map[hns.ACL]int{} // its place
	for _, rule := range c.Rules {
		for _, r := range renderRule(rule, ports, id) {
			r.acl.ID = ACLID(c.Key)
			at, twice := seen[r.acl]
			if !twice {
				at = len(g.rules)
				seen[r.acl] = at
				g.rules = append(g.rules, r)
			}
			if from := g.rules[at].rules; len(from) == 0 || from[len(from)-1] != rule.Index {
				g.rules[at].rules = append(from, rule.Index)
			}
		}
	}
	var digest strings.Builder
	for _, r := range g.rules {
		if !r.unused {
			g.served = append(g.served, r.acl)
			fmt.Fprintln(&digest, r.acl)
		}
	}
	g.digest = digest.String()
	return g
}

// renderRule returns the ACLs of one rule, without Id.
func renderRule(rule policy.Rule, ports portTable, id func(ipsets.Name) string) []rendered {
	if len(rule.Ports) == 0 {
		return renderPeer(rule, portMatch{}, rule.Peer, id)
	}
	var out []rendered
	byProtocol := map[policy.Protocol][]string{} // numbers and ranges; "" is every port
	var order []policy.Protocol
	add := func(p policy.Protocol, text string) {
		if _, ok := byProtocol[p]; !ok {
			order = append(order, p)
		}
		if !slices.Contains(byProtocol[p], text) {
			byProtocol[p] = append(byProtocol[p], text)
		}
	}
	for _, p := range rule.Ports {
		switch {
		case p.Name == "":
			add(p.Protocol, portText(p.First, p.Last))
		case rule.Direction == policy.Ingress:
			if number, ok := ports.own(p.Name, p.Protocol); ok {
				add(p.Protocol, portText(number, number))
			}
		default:
			for _, served := range ports.served(familyOf(rule.Peer, p)) {
				peer := policy.Peer{Sets: append(slices.Clone(rule.Peer.Sets), served.set)}
				match := portMatch{protocolNumber(p.Protocol), portText(served.number, served.number)}
				for _, r := range renderPeer(rule, match, peer, id) {
					r.unused = served.unused
					out = append(out, r)
				}
			}
		}
	}
	for _, p := range order {
		text := strings.Join(byProtocol[p], ",")
		if slices.Contains(byProtocol[p], "") {
			text = ""
		}
		out = append(out, renderPeer(rule, portMatch{protocolNumber(p), text}, rule.Peer, id)...)
	}
	return out
}

// portMatch is the protocol and port condition of an ACL.
type portMatch struct{ protocol, ports string }

// renderPeer returns the ACLs for one peer: one with set Ids, or one for every
// MaxAddressesPerACL literals.
func renderPeer(rule policy.Rule, match portMatch, peer policy.Peer, id func(ipsets.Name) string) []rendered {
	acl := hns.ACL{
		Protocols: match.protocol,
		Action:    hns.Allow,
		Direction: direction(rule.Direction),
		RuleType:  hns.Switch,
		Priority:  hns.PriorityAllow,
	}
	if rule.Direction == policy.Ingress {
		acl.LocalPorts = match.ports
	} else {
		acl.RemotePorts = match.ports
	}
	if len(peer.Blocks) > 0 {
		var out []rendered
		for blocks := range slices.Chunk(peer.Blocks, hns.MaxAddressesPerACL) {
			acl.RemoteAddresses = blockText(blocks)
			out = append(out, rendered{acl: acl})
		}
		return out
	}
	ids := make([]string, len(peer.Sets))
	for i, name := range peer.Sets {
		ids[i] = id(name)
	}
	slices.Sort(ids) // as canonical rules have them
	// With set Ids Local is the source and Remote the destination.
	if rule.Direction == policy.Ingress {
		acl.LocalAddresses = strings.Join(ids, ",")
	} else {
		acl.RemoteAddresses = strings.Join(ids, ",")
	}
	return []rendered{{acl: acl, names: peer.Sets}}
}

// renderShared returns the rules that all policies of an endpoint share.
func renderShared(isolated [2]bool, nodeAddrs []netip.Addr) []hns.ACL {
	var out []hns.ACL
	block := func(id string, dir hns.Direction) hns.ACL {
		return hns.ACL{ID: id, Action: hns.Block, Direction: dir, RuleType: hns.Switch, Priority: hns.PriorityBlock}
	}
	if isolated[policy.Ingress] {
		if len(nodeAddrs) > 0 {
			texts := make([]string, len(nodeAddrs))
			for i, a := range nodeAddrs {
				texts[i] = a.String()
			}
			out = append(out, hns.ACL{
				ID: idNode, Action: hns.Allow, Direction: hns.In, RuleType: hns.Switch,
				Priority: hns.PriorityNode, RemoteAddresses: strings.Join(texts, ","),
			})
		}
		out = append(out, block(idBlockIn, hns.In))
	}
	if isolated[policy.Egress] {
		out = append(out, block(idBlockOut, hns.Out))
	}
	return out
}

func direction(d policy.Direction) hns.Direction {
	if d == policy.Ingress {
		return hns.In
	}
	return hns.Out
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

// portText returns "" for every port, a number, or a range.
func portText(first, last uint16) string {
	switch first {
	case 0:
		return ""
	case last:
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d-%d", first, last)
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
