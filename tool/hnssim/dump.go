package hnssim

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math/big"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
)

// The dump is one line per object, what belongs to an endpoint indented:
//
//	network azure
//	set ns-x IPSET 10.0.0.4,10.0.0.5
//	set nslabel-team:a NESTEDIPSET empty-emptyhashset,ns-x
//	endpoint ep-1 addrs=10.0.0.4 state=Attached remote network=other
//	  acl In 222 Allow azure-acl-x.web proto=6 local-sets=ns-x ports=80
//	  policy OutBoundNAT {"Exceptions":["10.0.0.0/8"]}
//
// Sets go by name, and everything is sorted, as its order means nothing. A text
// with a blank, comma, quote or equals sign is quoted as in Go. A set whose Id
// does not follow from its name has id=.

// defaultState is the one that a dump leaves out.
const defaultState = AttachedSharing

// Dump returns the whole state as sorted text; ParseDump reads it.
func (s *Sim) Dump() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "network %s\n", quote(s.network))
	for _, name := range slices.Sorted(maps.Keys(s.names)) {
		at := s.names[name]
		fmt.Fprintf(&b, "set %s %s", quote(name), at.Type)
		if texts := at.dumpValues(); len(texts) > 0 {
			fmt.Fprintf(&b, " %s", strings.Join(texts, ","))
		}
		if at.ID != derivedID(name) {
			fmt.Fprintf(&b, " id=%s", quote(at.ID))
		}
		b.WriteByte('\n')
	}
	for _, id := range slices.Sorted(maps.Keys(s.endpoints)) {
		s.endpoints[id].dump(&b, s.network)
	}
	return b.String()
}

// dumpValues returns the values of a set as the dump shows them, sorted.
func (at *set) dumpValues() []string {
	if at.Type == hns.IPSet {
		return slices.SortedFunc(slices.Values(at.Values), compareValues)
	}
	return sortedNames(at.members)
}

func sortedNames(sets []*set) []string {
	names := make([]string, len(sets))
	for i, m := range sets {
		names[i] = quote(m.Name)
	}
	slices.Sort(names)
	return names
}

// compareValues orders addresses and blocks by number.
func compareValues(a, b string) int {
	x, _ := hns.ParseSpan(a)
	y, _ := hns.ParseSpan(b)
	if x.First != y.First {
		if x.First < y.First {
			return -1
		}
		return 1
	}
	return strings.Compare(a, b)
}

func (e *endpoint) dump(b *strings.Builder, network string) {
	fmt.Fprintf(b, "endpoint %s", quote(e.id))
	if len(e.addrs) > 0 {
		texts := make([]string, len(e.addrs))
		for i, a := range slices.SortedFunc(slices.Values(e.addrs), netip.Addr.Compare) {
			texts[i] = a.String()
		}
		fmt.Fprintf(b, " addrs=%s", strings.Join(texts, ","))
	}
	if e.state != defaultState {
		fmt.Fprintf(b, " state=%v", e.state)
	}
	if e.remote {
		b.WriteString(" remote")
	}
	if e.network != network {
		fmt.Fprintf(b, " network=%s", quote(e.network))
	}
	b.WriteByte('\n')
	lines := make([]string, len(e.policies))
	for i, p := range e.policies {
		lines[i] = p.dump()
	}
	slices.Sort(lines)
	for _, line := range lines {
		fmt.Fprintf(b, "  %s\n", line)
	}
}

// dump returns the line of a policy. Ours is shown by its meaning, as its text
// follows from that; everybody else's as it is.
func (p policy) dump() string {
	if p.rule == nil || !p.rule.ACL.Ours() {
		text := string(p.read.Settings)
		if strings.ContainsAny(text, "\r\n") || strings.TrimSpace(text) != text {
			text = strconv.Quote(text)
		}
		return fmt.Sprintf("policy %s %s", quote(p.read.Type), text)
	}
	a := p.rule.ACL
	var b strings.Builder
	fmt.Fprintf(&b, "acl %s %d %s %s", a.Direction, a.Priority, a.Action, quote(a.ID))
	for _, f := range []struct{ key, value string }{
		{"rule", strings.TrimPrefix(string(a.RuleType), string(hns.Switch))},
		{"proto", a.Protocols},
		{"local-sets", strings.Join(sortedNames(p.rule.local), ",")},
		{"local", literals(a.LocalAddresses, p.rule.Local)},
		{"remote-sets", strings.Join(sortedNames(p.rule.remote), ",")},
		{"remote", literals(a.RemoteAddresses, p.rule.Remote)},
		{"local-ports", a.LocalPorts},
		{"remote-ports", a.RemotePorts},
	} {
		if f.value != "" {
			fmt.Fprintf(&b, " %s=%s", f.key, f.value)
		}
	}
	return b.String()
}

// literals returns the field's literals, sorted; "" when it names sets.
func literals(field string, a hns.Addresses) string {
	if field == "" || len(a.Sets) > 0 {
		return ""
	}
	return strings.Join(slices.SortedFunc(strings.SplitSeq(field, ","), compareValues), ",")
}

// quote returns a text that the parser can tell from its surroundings.
func quote(text string) string {
	if text == "" || strings.ContainsAny(text, " ,=\"#`") || strconv.Quote(text) != `"`+text+`"` {
		return strconv.Quote(text)
	}
	return text
}

// derivedID is the Id that WinNPM and its predecessor give to a set: the prefix
// and 20 digits of the SHA-256 of its name in base 36, so that a dump and a
// fixture need no Ids.
func derivedID(name string) string {
	const digits = 20
	sum := sha256.Sum256([]byte(name))
	text := new(big.Int).SetBytes(sum[:]).Text(36)
	return hns.SetIDPrefix + (strings.Repeat("0", max(0, digits-len(text))) + text)[:digits]
}
