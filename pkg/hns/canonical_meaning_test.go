package hns_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/effort"
	"github.com/winnpm/winnpm/tool/match"
)

// The evaluator below says what a rule matches from its text alone. It shares no
// code with what it checks: it reads addresses with package net, one probe at a
// time, and compares nothing but the answers.

// probes are where the rules that are drawn can differ.
var (
	probeAddrs = func() (out []net.IP) {
		for _, text := range []string{"0.0.0.0", "9.255.255.255", "10.0.0.16", "10.255.255.255", "11.0.0.0", "127.255.255.255", "128.0.0.0", "255.255.255.255"} {
			out = append(out, net.ParseIP(text).To4())
		}
		for i := range byte(16) {
			out = append(out, net.IP{10, 0, 0, i})
		}
		return out
	}()
	probePorts     = []int{1, 2, 78, 79, 80, 81, 82, 83, 84, 442, 443, 444, 65534, 65535}
	probeProtocols = []int{0, 1, 6, 17, 58, 132, 255}
	probeSets      = []string{"azure-npm-1", "azure-npm-2x", "azure-npm-3"}
)

// world says which set lacks addresses, all or every odd one; the others have
// every address.
type world struct {
	set  string
	even bool
}

// everyWorld tells apart any two rules that name different sets.
func everyWorld() []world {
	out := []world{{}}
	for _, s := range probeSets {
		out = append(out, world{s, false}, world{s, true})
	}
	return out
}

func (w world) has(set string, addr net.IP) bool {
	return set != w.set || w.even && addr[3]%2 == 0
}

// texts are the parts of a field.
func texts(field string) []string {
	if strings.TrimSpace(field) == "" {
		return nil
	}
	parts := strings.Split(strings.ToLower(field), ",")
	for i := range parts {
		parts[i] = strings.Trim(parts[i], " \t")
	}
	return parts
}

func isSets(field string) bool { return strings.Contains(strings.ToLower(field), "azure-npm-") }

// hasLiteral reports whether a list of literals has an address.
func hasLiteral(field string, addr net.IP) bool {
	for _, text := range texts(field) {
		first, last, isRange := strings.Cut(text, "-")
		base, behind, isBlock := strings.Cut(text, "/")
		switch {
		case text == "*" || text == "any":
			return true
		case isRange:
			a, b := net.ParseIP(strings.TrimSpace(first)).To4(), net.ParseIP(strings.TrimSpace(last)).To4()
			if bytes.Compare(a, addr) <= 0 && bytes.Compare(addr, b) <= 0 {
				return true
			}
		case isBlock && strings.Contains(behind, "."):
			mask := net.IPMask(net.ParseIP(behind).To4())
			if net.ParseIP(base).To4().Mask(mask).Equal(addr.Mask(mask)) {
				return true
			}
		case isBlock:
			if _, block, err := net.ParseCIDR(text); err == nil && block.Contains(addr) {
				return true
			}
		case net.ParseIP(text).Equal(addr):
			return true
		}
	}
	return len(texts(field)) == 0
}

func hasPort(field string, port int) bool {
	for _, text := range texts(field) {
		first, last, isRange := strings.Cut(text, "-")
		if !isRange {
			last = first
		}
		a, _ := strconv.Atoi(strings.TrimSpace(first))
		b, _ := strconv.Atoi(strings.TrimSpace(last))
		if text == "*" || text == "any" || a <= port && port <= b {
			return true
		}
	}
	return len(texts(field)) == 0
}

func hasProtocol(field string, protocol int) bool {
	text := strings.ToLower(strings.TrimSpace(field))
	named := map[string]int{"tcp": 6, "udp": 17, "sctp": 132, "icmp": 1}
	if n, ok := named[text]; ok {
		return n == protocol
	}
	n, _ := strconv.Atoi(text)
	return text == "" || text == "any" || text == "*" || n == 256 || n == protocol
}

// hasAddresses reports whether source and destination of a packet are in an
// address field: Local is the endpoint with literals and the source with sets.
func hasAddresses(a hns.ACL, local bool, src, dst net.IP, w world) bool {
	field := a.RemoteAddresses
	if local {
		field = a.LocalAddresses
	}
	if isSets(field) {
		member := dst
		if local {
			member = src
		}
		return !slices.ContainsFunc(texts(field), func(id string) bool { return !w.has(id, member) })
	}
	if local == strings.EqualFold(string(a.Direction), "in") {
		return hasLiteral(field, dst)
	}
	return hasLiteral(field, src)
}

// meaning says all that a rule matches, over every probe, and what it does then.
// Each condition speaks of one thing, so the answers are independent, but where
// one has no answer the rule has none.
func meaning(a hns.ACL) string {
	kind := strings.ToLower(string(a.RuleType))
	if kind == "" {
		kind = "switch"
	}
	id := a.ID
	if strings.HasPrefix(strings.ToLower(id), "azure-acl-") {
		id = strings.ToLower(id)
	}
	out := strings.ToLower(fmt.Sprintf("%s %s %s %d", a.Action, a.Direction, kind, a.Priority)) + " " + id
	var ports []int
	for _, p := range probePorts {
		if hasPort(a.LocalPorts, p) {
			ports = append(ports, p)
		}
		if hasPort(a.RemotePorts, p) {
			ports = append(ports, -p)
		}
	}
	var protocols []int
	for _, p := range probeProtocols {
		if hasProtocol(a.Protocols, p) {
			protocols = append(protocols, p)
		}
	}
	out += fmt.Sprint(ports, protocols)
	for _, w := range everyWorld() {
		var pairs []string
		for _, x := range probeAddrs {
			for _, y := range probeAddrs {
				if hasAddresses(a, true, x, y, w) && hasAddresses(a, false, x, y, w) {
					pairs = append(pairs, x.String()+">"+y.String())
				}
			}
		}
		out += fmt.Sprint(pairs)
	}
	return out
}

// ----- drawing -----

// drawSpelling writes numbers, drawn as ranges, in one of the ways that mean them.
func drawSpelling(t *rapid.T, ranges [][2]uint32, spell func(t *rapid.T, first, last uint32) []string) string {
	var parts []string
	for _, r := range ranges {
		parts = append(parts, spell(t, r[0], r[1])...)
		if rapid.IntRange(0, 4).Draw(t, "again") == 0 {
			parts = append(parts, spell(t, r[0], r[1])...)
		}
	}
	if len(parts) > 0 {
		parts = rapid.Permutation(parts).Draw(t, "order")
	}
	return strings.Join(parts, rapid.SampledFrom([]string{",", ",", ", ", " ,\t"}).Draw(t, "comma"))
}

func quad(n uint32) string { return net.IPv4(byte(n>>24), byte(n>>16), byte(n>>8), byte(n)).String() }

// spellLiterals writes a range of addresses.
func spellLiterals(t *rapid.T, first, last uint32) []string {
	size := last - first + 1 // 0: all
	isBlock := bits.OnesCount32(size) <= 1 && first&(size-1) == 0
	cut := first < last && rapid.IntRange(0, 2).Draw(t, "cut") == 0
	switch {
	case cut:
		middle := first + (last-first)/2
		return append(spellLiterals(t, first, middle), spellLiterals(t, middle+1, last)...)
	case first == 0 && size == 0 && rapid.Bool().Draw(t, "word"):
		return []string{rapid.SampledFrom([]string{"*", "any", "Any"}).Draw(t, "every")}
	case isBlock && rapid.IntRange(0, 3).Draw(t, "block") > 0:
		host := rapid.Uint32Range(0, last-first).Draw(t, "host bits") * uint32(rapid.IntRange(0, 1).Draw(t, "with"))
		if rapid.Bool().Draw(t, "mask") {
			return []string{quad(first|host) + "/" + quad(^(size - 1))}
		}
		return []string{fmt.Sprintf("%s/%d", quad(first|host), bits.LeadingZeros32(last-first))}
	case first == last && rapid.Bool().Draw(t, "single"):
		return []string{quad(first)}
	}
	return []string{quad(first) + "-" + quad(last)}
}

// spellPorts writes a range of ports.
func spellPorts(t *rapid.T, first, last uint32) []string {
	switch {
	case first < last && rapid.IntRange(0, 2).Draw(t, "cut") == 0:
		return append(spellPorts(t, first, first), spellPorts(t, first+1, last)...)
	case first == 1 && last == 65535 && rapid.Bool().Draw(t, "word"):
		return []string{rapid.SampledFrom([]string{"*", "ANY", "0-65535"}).Draw(t, "every")}
	case first == last && rapid.Bool().Draw(t, "single"):
		return []string{fmt.Sprintf("%0*d", rapid.IntRange(1, 5).Draw(t, "digits"), first)}
	}
	return []string{fmt.Sprintf("%d%s%d", first, rapid.SampledFrom([]string{"-", " - "}).Draw(t, "to"), last)}
}

// spellWord writes a word in any letter case.
func spellWord(t *rapid.T, word string) string {
	return rapid.SampledFrom([]string{word, strings.ToLower(word), strings.ToUpper(word)}).Draw(t, word)
}

// drawn is a rule as numbers.
type drawn struct {
	id, action, direction, kind, protocol string
	sets                                  [2][]string
	literals                              [2][][2]uint32
	ports                                 [2][][2]uint32
	priority                              uint16
}

func drawRule(t *rapid.T) drawn {
	some := func(from ...string) string { return rapid.SampledFrom(from).Draw(t, from[0]) }
	d := drawn{
		id: some("azure-acl-a", "azure-acl-b", "Calico"), action: some("Allow", "Block"), direction: some("In", "Out"),
		kind: some("Switch", "Switch", "Host"), protocol: some("", "6", "17", "132", "1", "0", "58"),
		priority: rapid.SampledFrom([]uint16{222, 3000}).Draw(t, "priority"),
	}
	address := rapid.Custom(func(t *rapid.T) [2]uint32 {
		const base = 10 << 24
		if rapid.IntRange(0, 4).Draw(t, "great") == 0 {
			return rapid.SampledFrom([][2]uint32{{0, 1<<32 - 1}, {0, 1<<31 - 1}, {1 << 31, 1<<32 - 1}, {base, base | 1<<24 - 1}}).Draw(t, "block")
		}
		first := rapid.Uint32Range(0, 15).Draw(t, "first")
		return [2]uint32{base | first, base | rapid.Uint32Range(first, 15).Draw(t, "last")}
	})
	port := rapid.Custom(func(t *rapid.T) [2]uint32 {
		return rapid.SampledFrom([][2]uint32{{1, 65535}, {79, 79}, {80, 80}, {80, 82}, {81, 83}, {443, 443}, {1, 78}, {444, 65535}}).Draw(t, "ports")
	})
	for i := range 2 {
		if rapid.Bool().Draw(t, "sets") {
			d.sets[i] = rapid.SliceOfNDistinct(rapid.SampledFrom(probeSets), 1, 2, rapid.ID).Draw(t, "ids")
		} else {
			d.literals[i] = rapid.SliceOfN(address, 0, 3).Draw(t, "literals")
		}
		d.ports[i] = rapid.SliceOfN(port, 0, 2).Draw(t, "port list")
	}
	return d
}

func (d drawn) spell(t *rapid.T) hns.ACL {
	a := hns.ACL{
		ID: d.id, Protocols: d.protocol, Action: hns.ActionType(spellWord(t, d.action)),
		Direction: hns.DirectionType(spellWord(t, d.direction)), RuleType: hns.RuleType(spellWord(t, d.kind)), Priority: d.priority,
		LocalPorts: drawSpelling(t, d.ports[0], spellPorts), RemotePorts: drawSpelling(t, d.ports[1], spellPorts),
	}
	if strings.HasPrefix(d.id, "azure") {
		a.ID = spellWord(t, d.id)
	}
	if d.kind == "Switch" && rapid.Bool().Draw(t, "absent") {
		a.RuleType = ""
	}
	names := map[string][]string{"": {"", "256", "Any"}, "6": {"6", "tcp"}, "17": {"17", "UDP", "017"}, "132": {"132", "Sctp"}, "1": {"1", "icmp"}}
	if of := names[d.protocol]; of != nil {
		a.Protocols = rapid.SampledFrom(of).Draw(t, "protocol")
	}
	for i, field := range []*string{&a.LocalAddresses, &a.RemoteAddresses} {
		*field = drawSpelling(t, d.literals[i], spellLiterals)
		if len(d.sets[i]) > 0 {
			ids := rapid.Permutation(d.sets[i]).Draw(t, "sets")
			for n := range ids {
				ids[n] = spellWord(t, ids[n])
			}
			*field = strings.Join(ids, rapid.SampledFrom([]string{",", " , "}).Draw(t, "comma"))
		}
	}
	return a
}

// drawOther draws a rule that differs in one thing at most.
func (d drawn) drawOther(t *rapid.T) drawn {
	fresh, i := drawRule(t), rapid.IntRange(0, 1).Draw(t, "side")
	switch rapid.IntRange(0, 9).Draw(t, "change") {
	case 0:
		d.id = fresh.id
	case 1:
		d.action, d.priority = fresh.action, fresh.priority
	case 2:
		d.direction = fresh.direction
	case 3:
		d.kind = fresh.kind
	case 4:
		d.protocol = fresh.protocol
	case 5, 6:
		d.sets[i], d.literals[i] = fresh.sets[i], fresh.literals[i]
	case 7:
		d.ports[i] = fresh.ports[i]
	}
	return d
}

// TestCanonicalIsTheMeaning: two rules have one canonical form exactly when they
// match the same packets and do the same with them, and a canonical form is its
// own and means what the rule meant.
func TestCanonicalIsTheMeaning(t *testing.T) {
	equal, different := 0, 0
	effort.Checks(t, effort.Of(30, 100))
	rapid.Check(t, func(t *rapid.T) {
		d := drawRule(t)
		a, b := d.spell(t), d.drawOther(t).spell(t)
		ca, cb := a.Canonical(), b.Canonical()
		require.Equal(t, ca, ca.Canonical(), "of %v", a)
		require.Equal(t, meaning(a), meaning(ca), "%v", a)
		same := meaning(a) == meaning(b)
		require.Equal(t, same, ca == cb, "%+v\n%+v\n%+v\n%+v", a, b, ca, cb)
		require.Equal(t, same, hns.Basis(nil, []hns.ACL{a}, hns.Defaults{}) == hns.Basis(nil, []hns.ACL{b}, hns.Defaults{}))
		if same {
			equal++
		} else {
			different++
		}
	})
	require.Positive(t, equal)
	require.Positive(t, different)
}

// TestDecideReadsEverySpelling: the switch is asked about a rule as it is spelt,
// and the evaluator about the same text.
func TestDecideReadsEverySpelling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawRule(t)
		d.kind, d.ports[0], d.ports[1] = "Switch", nil, nil
		dir, side := hns.In, 0
		if d.direction == "Out" {
			dir, side = hns.Out, 1
		}
		d.ports[side] = drawRule(t).ports[0]
		a := d.spell(t)
		w := rapid.SampledFrom(everyWorld()).Draw(t, "world")
		r, err := match.ParseRule(a, func(id string) *match.Set {
			set := &match.Set{Type: hns.IPSet}
			for _, addr := range probeAddrs {
				if n := binary.BigEndian.Uint32(addr); w.has(id, addr) {
					set.Spans = append(set.Spans, match.Span{First: n, Last: n})
				}
			}
			set.Spans = set.Spans.Sorted()
			return set
		})
		require.NoError(t, err)
		for range 20 {
			src := rapid.SampledFrom(probeAddrs).Draw(t, "src")
			dst := rapid.SampledFrom(probeAddrs).Draw(t, "dst")
			protocol, port := rapid.SampledFrom(probeProtocols).Draw(t, "protocol"), rapid.SampledFrom(probePorts).Draw(t, "port")
			verdict, err := match.Decide([]*match.Rule{r}, dir, match.Packet{
				Src: netip.AddrFrom4([4]byte(src)), Dst: netip.AddrFrom4([4]byte(dst)), Protocol: uint8(protocol), DstPort: uint16(port),
			})
			require.NoError(t, err)
			want := hasAddresses(a, true, src, dst, w) && hasAddresses(a, false, src, dst, w) && hasProtocol(a.Protocols, protocol) &&
				hasPort([]string{a.LocalPorts, a.RemotePorts}[side], port)
			require.Equal(t, want, !verdict.Default, "%+v: %v to %v, protocol %d, port %d", a, src, dst, protocol, port)
		}
	})
}
