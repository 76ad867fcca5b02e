package render

import (
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/pkg/tiers"
)

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

// SizeOf returns as how many ACLs the rules of a policy count, without rendering them. It is an
// upper bound: equal rules and short Ids of sets make less. It costs the policy's peers and
// ports, and the numbers of its named ports.
func SizeOf(c *policy.Policy, ports Ports) (n int) {
	idBytes := len(state.ACLID(c.Key))
	for _, rule := range c.Rules {
		matches, named := portMatches(rule, ports), NewNamedEgress(c.Key.Namespace, rule, ports)
		for _, peer := range rule.Peers {
			for _, served := range named.Towards(peer) {
				if !served.Unused {
					n += aclsOfPeer([]portMatch{{ports: "65535"}}, len(peer.Sets)+1, 0, idBytes)
				}
			}
			n += aclsOfPeer(matches, len(peer.Sets), len(peer.Blocks), idBytes)
		}
	}
	return n
}

// SizeOfRules returns as how many ACLs rules count.
func SizeOfRules(rules []TierRule) (n int) {
	for _, r := range rules {
		a := r.ACL
		n += acls(bytesPerACL + len(a.ID) + len(a.LocalAddresses) + len(a.RemoteAddresses) + len(a.LocalPorts) + len(a.RemotePorts))
	}
	return n
}

// Cost returns as how many ACLs an atom counts whose Ids have up to so many bytes.
func Cost(a tiers.Atom, idBytes int) int {
	matches := []portMatch{{}}
	if len(a.Ports) > 0 {
		matches = matchesOf(a.Ports)
	}
	if len(a.Sets) > 0 {
		return aclsOfPeer(matches, len(a.Sets)+1, 0, idBytes) // of the blocks there is a set
	}
	return aclsOfPeer(matches, 0, len(a.Blocks), idBytes)
}
