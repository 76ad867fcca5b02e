package hnsfault

import (
	"crypto/sha256"
	"fmt"
	"math/big"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/tool/hnssim"
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
const defaultState = hnssim.AttachedSharing

// Dump returns the whole state as sorted text.
func (s *Sim) Dump() string {
	sets, endpoints := s.Sets(), s.Endpoints()
	names := map[string]string{} // by Id
	for _, p := range sets {
		names[p.ID] = p.Name
	}
	var b strings.Builder
	fmt.Fprintf(&b, "network %s\n", quote(s.network))
	for _, p := range sets {
		fmt.Fprintf(&b, "set %s %s", quote(p.Name), p.Type)
		if texts := dumpValues(p, names); len(texts) > 0 {
			fmt.Fprintf(&b, " %s", strings.Join(texts, ","))
		}
		if p.ID != derivedID(p.Name) {
			fmt.Fprintf(&b, " id=%s", quote(p.ID))
		}
		b.WriteByte('\n')
	}
	for _, e := range endpoints {
		dumpEndpoint(&b, e, s.network, names)
	}
	return b.String()
}

// dumpValues returns the values of a set as the dump shows them, sorted.
func dumpValues(p hns.SetPolicy, names map[string]string) []string {
	if p.Type == hns.IPSet {
		return slices.SortedFunc(slices.Values(p.Values), compareValues)
	}
	return sortedNames(p.Values, names)
}

// sortedNames returns the names of sets, sorted.
func sortedNames(ids []string, names map[string]string) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = quote(names[id])
	}
	slices.Sort(out)
	return out
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

func dumpEndpoint(b *strings.Builder, e hnssim.EndpointView, network string, names map[string]string) {
	fmt.Fprintf(b, "endpoint %s", quote(e.ID))
	if len(e.Addrs) > 0 {
		texts := make([]string, len(e.Addrs))
		for i, a := range slices.SortedFunc(slices.Values(e.Addrs), netip.Addr.Compare) {
			texts[i] = a.String()
		}
		fmt.Fprintf(b, " addrs=%s", strings.Join(texts, ","))
	}
	if e.State != defaultState {
		fmt.Fprintf(b, " state=%v", e.State)
	}
	if e.Remote {
		b.WriteString(" remote")
	}
	if e.Network != network {
		fmt.Fprintf(b, " network=%s", quote(e.Network))
	}
	b.WriteByte('\n')
	lines := make([]string, len(e.Policies))
	for i, p := range e.Policies {
		lines[i] = dumpPolicy(p, names)
	}
	slices.Sort(lines)
	for _, line := range lines {
		fmt.Fprintf(b, "  %s\n", line)
	}
}

// dumpPolicy returns the line of a policy. Ours is shown by its meaning, as its text
// follows from that; everybody else's as it is.
func dumpPolicy(p hns.EndpointPolicy, names map[string]string) string {
	a, err := p.ACL()
	if err != nil || !a.Ours() {
		text := string(p.Settings)
		if strings.ContainsAny(text, "\r\n") || strings.TrimSpace(text) != text {
			text = strconv.Quote(text)
		}
		return fmt.Sprintf("policy %s %s", quote(p.Type), text)
	}
	localSets, local := dumpAddresses(a.LocalAddresses, names)
	remoteSets, remote := dumpAddresses(a.RemoteAddresses, names)
	var b strings.Builder
	fmt.Fprintf(&b, "acl %s %d %s %s", a.Direction, a.Priority, a.Action, quote(a.ID))
	for _, f := range []struct{ key, value string }{
		{"rule", strings.TrimPrefix(string(a.RuleType), string(hns.Switch))},
		{"proto", strings.TrimPrefix(a.Protocols, hns.AnyProtocol)},
		{"local-sets", localSets},
		{"local", local},
		{"remote-sets", remoteSets},
		{"remote", remote},
		{"local-ports", a.LocalPorts},
		{"remote-ports", a.RemotePorts},
	} {
		if f.value != "" {
			fmt.Fprintf(&b, " %s=%s", f.key, f.value)
		}
	}
	return b.String()
}

// dumpAddresses returns the names of the sets of a field, or its literals, sorted.
func dumpAddresses(field string, names map[string]string) (sets, texts string) {
	switch {
	case field == "":
		return "", ""
	case !isLiteral(strings.Split(field, ",")[0]):
		return strings.Join(sortedNames(strings.Split(field, ","), names), ","), ""
	}
	return "", strings.Join(slices.SortedFunc(strings.SplitSeq(field, ","), compareValues), ",")
}

// isLiteral reports whether a text is an address or a block, and no Id of a set.
func isLiteral(text string) bool {
	_, ok := hns.ParseSpan(text)
	return ok || text == hns.EveryIPv6
}

// quote returns a text that a reader can tell from its surroundings.
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
