package dataplane

import (
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
)

// size is what the rules of a policy come to on one endpoint: an upper bound, which
// equal rules and short Ids of sets make larger than what is rendered.
type size struct {
	acls  int
	bytes int // of their JSON
}

// The bytes of an ACL's JSON beside its Id, its ports and its peer, and those of one
// member of a peer with the comma behind it.
const (
	bytesPerACL   = 192
	bytesPerID    = len("azure-npm-") + 20 + 1
	bytesPerBlock = len("255.255.255.255/31") + 1
)

// sizeOf tells what renderGroup would make of a policy, without making it. It costs the
// policy's peers and ports, and the numbers of its named ports.
func sizeOf(c *policy.Compiled, ports portTable) size {
	var s size
	perACL := bytesPerACL + len(state.ACLID(c.Key))
	for rules := range c.ByRule() {
		matches, named := portMatches(rules[0], ports), newNamedEgress(c.Key, rules[0], ports)
		text := 0
		for _, m := range matches {
			text += len(m.ports)
		}
		for _, rule := range rules {
			for _, served := range named.towards(rule.Peer) {
				if !served.unused {
					s.acls++
					s.bytes += perACL + len("65535") + (len(rule.Peer.Sets)+1)*bytesPerID
				}
			}
			chunks := max(1, (len(rule.Peer.Blocks)+hns.MaxAddressesPerACL-1)/hns.MaxAddressesPerACL)
			s.acls += len(matches) * chunks
			s.bytes += chunks*(len(matches)*perACL+text) + len(matches)*(len(rule.Peer.Sets)*bytesPerID+len(rule.Peer.Blocks)*bytesPerBlock)
		}
	}
	return s
}
