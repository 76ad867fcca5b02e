package render

import (
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/pkg/tiers"
)

// Size is what the rules of a policy come to on one endpoint: an upper bound, which
// equal rules and short Ids of sets make larger than what is rendered.
type Size struct {
	ACLs  int
	Bytes int // of their JSON
}

// The bytes of an ACL's JSON beside its Id, its ports and its peer, and those of one
// member of a peer with the comma behind it.
const (
	bytesPerACL   = 192
	bytesPerID    = len("azure-npm-") + 20 + 1
	bytesPerBlock = len("255.255.255.255/31") + 1
)

// SizeOf tells what Policy would make of a policy, without making it. It costs the
// policy's peers and ports, and the numbers of its named ports.
func SizeOf(c *policy.Compiled, ports Ports) Size {
	var s Size
	perACL := bytesPerACL + len(state.ACLID(c.Key))
	for rules := range c.ByRule() {
		matches, named := portMatches(rules[0], ports), NewNamedEgress(c.Key, rules[0], ports)
		text := 0
		for _, m := range matches {
			text += len(m.ports)
		}
		for _, rule := range rules {
			for _, served := range named.Towards(rule.Peer) {
				if !served.Unused {
					s.ACLs++
					s.Bytes += perACL + len("65535") + (len(rule.Peer.Sets)+1)*bytesPerID
				}
			}
			chunks := max(1, (len(rule.Peer.Blocks)+hns.MaxAddressesPerACL-1)/hns.MaxAddressesPerACL)
			s.ACLs += len(matches) * chunks
			s.Bytes += chunks*(len(matches)*perACL+text) + len(matches)*(len(rule.Peer.Sets)*bytesPerID+len(rule.Peer.Blocks)*bytesPerBlock)
		}
	}
	return s
}

// Add returns the size of both.
func (s Size) Add(o Size) Size { return Size{s.ACLs + o.ACLs, s.Bytes + o.Bytes} }

// Within reports whether rules of this size are within the budget of one pod.
func (s Size) Within(b policy.Budgets) bool { return s.ACLs <= b.ACLs && s.Bytes <= b.ACLBytes }

// BytesOf tells how many bytes the JSON of rules has, at most.
func BytesOf(rules []TierRule) (n int) {
	for _, r := range rules {
		a := r.ACL
		n += bytesPerACL + len(a.ID) + len(a.LocalAddresses) + len(a.RemoteAddresses) + len(a.LocalPorts) + len(a.RemotePorts)
	}
	return n
}

// SizeOfLines tells what the lines of a direction come to.
func SizeOfLines(lines []tiers.Line[Source], limits tiers.Limits) (s Size) {
	for _, l := range lines {
		acls, bytes := limits.Cost(l.Atom)
		s = s.Add(Size{acls, bytes})
	}
	return s
}
