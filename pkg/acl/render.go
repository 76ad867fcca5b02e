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
)

// add adds one ACL. A second one that matches the same with the same number adds its rule to the
// first, if it is of the same policy. With set Ids Local is the source and Remote the destination; a
// literal is always Remote.
func (l *list) add(rule SourcedACL, match portMatch, peer peerText) {
	in := rule.Direction == hns.In
	rule.Protocols = match.protocol
	if in {
		rule.LocalPorts = match.ports
	} else {
		rule.RemotePorts = match.ports
	}
	if in && !peer.literals {
		rule.LocalAddresses = peer.text
	} else {
		rule.RemoteAddresses = peer.text
	}
	is := rule.ACL
	is.ID = ""
	switch was := l.seen[is]; {
	case was == nil:
		rule.Names, rule.Rules = peer.names, []int{rule.From.Index}
		l.seen[is] = &rule
		l.out = append(l.out, &rule)
		if rule.Unused {
			l.Limit++
		}
	case was.From.Key == rule.From.Key && was.Rules[len(was.Rules)-1] != rule.From.Index:
		was.Rules = append(was.Rules, rule.From.Index)
	}
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
		if all[i].First > 0 { // otherwise every port
			text = strconv.AppendUint(text, uint64(all[i].First), 10)
		}
		if all[i].Last != all[i].First {
			text = strconv.AppendUint(append(text, '-'), uint64(all[i].Last), 10)
		}
		if i+1 < len(all) && all[i+1].Protocol == all[i].Protocol {
			text = append(text, ',')
			continue
		}
		number := protocolNumbers[all[i].Protocol]
		if number == "" {
			panic(fmt.Sprintf("BUG: protocol %q was compiled", all[i].Protocol))
		}
		out = append(out, portMatch{number, string(text)})
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
func (l *list) peers(a Atom, block bool) (out []peerText) {
	if len(a.Sets) == 0 && len(a.Blocks) > 0 {
		for blocks := range slices.Chunk(a.Blocks, hns.MaxAddressesPerACL) {
			out = append(out, peerText{text: blockText(blocks), literals: true})
		}
		return out
	}
	names := a.Sets
	if len(a.Blocks) > 0 { // no ACL has both sets and blocks: a set more stands for these
		inside := policy.InBlocks(a.Blocks).Name
		if block {
			inside = inside.Deny()
		}
		names = append(slices.Clone(names), inside)
	}
	ids := make([]string, len(names))
	for i, name := range names {
		ids[i] = l.ID(name)
	}
	slices.Sort(ids) // as canonical rules have them
	return []peerText{{text: strings.Join(ids, ","), names: names}}
}

// protocolNumbers has the IANA number of each protocol. Calico also uses 132 for SCTP on HNS.
var protocolNumbers = map[policy.Protocol]string{policy.TCP: "6", policy.UDP: "17", policy.SCTP: "132"}

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

// bytesPerACL are the bytes of an ACL's JSON beside its Id, its ports and its peer.
const bytesPerACL = 192

// longACL is the length of the JSON above which an ACL counts as several.
const longACL = 320

// Size returns the size of a list, counted in ACLs of usual length: a long ACL counts as several. It
// counts only ACLs of policies, and not the block at the end.
func Size(all []*SourcedACL) (n int) {
	for _, a := range all {
		if !a.Unused && a.Owner() != (policy.Key{}) {
			bytes := bytesPerACL + len(a.ID) + len(a.LocalAddresses) + len(a.RemoteAddresses) + len(a.LocalPorts) + len(a.RemotePorts)
			n += max(1, (bytes+longACL-1)/longACL)
		}
	}
	return n
}
