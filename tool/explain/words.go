package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
)

// SetNames are the names of sets by id.
type SetNames map[string]string

// Of replaces ids by names, where there is one.
func (names SetNames) Of(ids []string) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = cmp.Or(names[id], id)
	}
	return out
}

// shownBlocks keeps a rule on one line; a block with exceptions is many.
const shownBlocks = 4

// Peer says whom a rule is about, its sets by name.
func (names SetNames) Peer(a hns.ACL) string {
	peer := a.RemoteAddresses
	if a.Direction == hns.In && len(a.SetIDs()) > 0 {
		peer = a.LocalAddresses // with sets, the source
	}
	word := "to"
	if a.Direction == hns.In {
		word = "from"
	}
	switch {
	case peer == "":
		return word + " everyone"
	case len(a.SetIDs()) > 0:
		sets := names.Of(strings.Split(peer, ","))
		slices.Sort(sets) // by name: the order of ids says nothing to people
		return word + " " + strings.Join(sets, " and ")
	}
	blocks := strings.Split(peer, ",")
	if len(blocks) > shownBlocks {
		return fmt.Sprintf("%s %s or %d more", word, strings.Join(blocks[:shownBlocks-1], " or "), len(blocks)-shownBlocks+1)
	}
	return word + " " + strings.Join(blocks, " or ")
}

var protocolNames = map[string]string{"": "any protocol", "6": "TCP", "17": "UDP", "132": "SCTP"}

// PortsText says which traffic a rule is about.
func PortsText(a hns.ACL) string {
	return strings.TrimSpace(cmp.Or(protocolNames[a.Protocols], a.Protocols) + " " + a.DstPorts())
}

// portText says one port of a policy.
func portText(p policy.Port) string {
	switch {
	case p.Name != "":
		return fmt.Sprintf("%s/%s", p.Name, p.Protocol)
	case p.First == 0:
		return "any port of " + string(p.Protocol)
	case p.First == p.Last:
		return fmt.Sprintf("%d/%s", p.First, p.Protocol)
	}
	return fmt.Sprintf("%d-%d/%s", p.First, p.Last, p.Protocol)
}

// list joins words as a sentence does.
func list(words []string, last string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	n := len(words) - 1
	return strings.Join(words[:n], ", ") + " " + last + " " + words[n]
}
