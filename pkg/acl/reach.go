package acl

import (
	"fmt"
	"hash/fnv"
	"net/netip"

	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/pkg/policy"
)

// Reach is where the peers of an egress rule can be, as a policy sees it.
type Reach struct {
	// Own is the namespace of the policy. Its numbers come first, so other namespaces cannot
	// displace them.
	Own    string
	Blocks string // as BlocksInName has them, "" for none
	// Among is the set of the namespaces, or of the namespace, that the peers are in; of
	// blocks and of everyone there is none.
	Among ipsets.Name
}

// ReachOf returns where a peer of a policy can be. It costs the peer's blocks.
func ReachOf(own string, peer policy.Peer) Reach {
	at := Reach{Own: own, Blocks: BlocksInName(peer.Blocks)}
	for _, n := range peer.Sets {
		if n.Kind() == ipsets.KindNamespace || n.Kind() == ipsets.KindNamespaceSelector {
			at.Among = n
		}
	}
	return at
}

// String words a reach for a warning.
func (at Reach) String() string {
	switch {
	case at.Blocks != "":
		return fmt.Sprintf("%.100s", at.Blocks)
	case at.Among != ipsets.Name{}:
		return fmt.Sprintf("%.100s", at.Among)
	}
	return "everyone"
}

// BlocksInName names blocks in a set's name. Many of them are cut short and
// told apart by a hash, as the name of a set should stay readable.
func BlocksInName(blocks []netip.Prefix) string {
	if len(blocks) == 0 {
		return ""
	}
	text := blockText(blocks)
	if len(blocks) <= 4 {
		return text
	}
	h := fnv.New128a()
	_, _ = h.Write([]byte(text)) // never fails
	return fmt.Sprintf("%s+%d-%x", blocks[0], len(blocks)-1, h.Sum(nil))
}
