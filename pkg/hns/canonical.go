package hns

import (
	"slices"
	"strconv"
	"strings"
)

// Canonical returns the rule in a form that depends on its meaning only: two rules mean the same
// exactly when their canonical forms are equal. HNS shows a rule in another form than it was sent
// in (azure-container-networking#1752), and that form is not documented. So rules are compared by
// what they match:
//
//   - An address field that covers every IPv4 address, a port field that covers every port, and
//     the protocol "any" become empty.
//   - Literal addresses become the fewest blocks, ports the fewest ranges, both in ascending
//     order. A protocol becomes its number.
//   - Ids of our sets are in lower case, sorted, without duplicates.
//   - An absent rule type becomes Switch.
//   - HNS's own words and our Id have one letter case.
//
// Any other field keeps its text, without surrounding blanks, and so differs from all fields in
// canonical form.
func (a ACL) Canonical() ACL {
	if a.Ours() {
		a.ID = strings.ToLower(a.ID)
	}
	a.Protocols = canonicalProtocol(a.Protocols)
	a.Action = canonicalWord(a.Action, Allow, Block)
	a.Direction = canonicalWord(a.Direction, In, Out)
	if a.RuleType = canonicalWord(a.RuleType, Switch, Host); a.RuleType == "" {
		a.RuleType = Switch // the default of HNS (azure-container-networking#1752)
	}
	a.LocalAddresses = canonicalAddresses(a.LocalAddresses)
	a.RemoteAddresses = canonicalAddresses(a.RemoteAddresses)
	a.LocalPorts, _ = portField.canonical(strings.TrimSpace(a.LocalPorts))
	a.RemotePorts, _ = portField.canonical(strings.TrimSpace(a.RemotePorts))
	return a
}

// MatchesAll reports whether a canonical rule is a Switch rule that matches every packet of its
// direction.
func (a ACL) MatchesAll() bool {
	return a.RuleType == Switch && a.Protocols == "" &&
		a.LocalAddresses+a.RemoteAddresses+a.LocalPorts+a.RemotePorts == ""
}

// CanonicalValue returns an IPSET value, an address or a block, in the form that WinNPM writes; a
// single address has no mask. It returns false if the text is neither, or is a range of addresses
// that is not one block.
func CanonicalValue(text string) (string, bool) {
	sp, ok := readLiteral(strings.TrimSpace(text))
	if !ok {
		return "", false
	}
	value := string(appendBlocks(nil, sp))
	if strings.Contains(value, ",") {
		return "", false
	}
	return value, true
}

// canonicalWord returns the word that equals the text without regard to letter case and surrounding
// blanks, or the text itself.
func canonicalWord[T ~string](text T, words ...T) T {
	text = T(strings.TrimSpace(string(text)))
	for _, w := range words {
		if strings.EqualFold(string(text), string(w)) {
			return w
		}
	}
	return text
}

// protocolNumbers has the canonical form of each protocol name that users of HNS are known to write.
var protocolNumbers = map[string]string{"ICMP": "1", "TCP": "6", "UDP": "17", "SCTP": "132", "*": "", "ANY": "", AnyProtocol: ""}

func canonicalProtocol(text string) string {
	text = strings.TrimSpace(text)
	if n, err := strconv.ParseUint(text, 10, 16); err == nil && n <= 256 {
		text = strconv.FormatUint(n, 10)
	}
	if number, named := protocolNumbers[strings.ToUpper(text)]; named {
		return number
	}
	return text
}

// canonicalAddresses returns the canonical form of an address field: of a list of Ids of our sets, or
// of a list of literals. A rule matches what is in all of its sets, so their order and duplicates
// have no meaning.
func canonicalAddresses(field string) string {
	field = strings.TrimSpace(field)
	lower := strings.ToLower(field)
	if !strings.HasPrefix(lower, SetIDPrefix) {
		field, _ = addressField.canonical(field)
		return field
	}
	ids := strings.Split(lower, ",")
	for i, id := range ids {
		if ids[i] = strings.TrimSpace(id); !strings.HasPrefix(ids[i], SetIDPrefix) {
			return field
		}
	}
	slices.Sort(ids)
	return strings.Join(slices.Compact(ids), ",")
}

// ReadableAddresses reports whether a canonical field consists of literals, EveryIPv6, and
// Ids of our sets.
func ReadableAddresses(field string) bool {
	if field == "" {
		return true
	}
	for text := range strings.SplitSeq(field, ",") {
		if _, literal := readLiteral(text); !literal && text != EveryIPv6 && !strings.HasPrefix(text, SetIDPrefix) {
			return false
		}
	}
	return true
}

// ReadablePorts reports whether a canonical field consists of ports and ranges.
func ReadablePorts(field string) bool {
	_, ok := portField.canonical(field)
	return ok
}

// ReadableProtocol reports whether a canonical protocol is a number or empty.
func ReadableProtocol(protocol string) bool {
	_, err := strconv.ParseUint(protocol, 10, 8)
	return protocol == "" || err == nil
}
