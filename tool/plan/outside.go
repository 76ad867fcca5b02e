package plan

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/tool/explain"
	"github.com/winnpm/winnpm/tool/match"
)

// Addresses is a group of addresses outside, which do not belong to pods, and which no policy
// distinguishes.
type Addresses struct {
	Name   string   `json:"name"`
	Blocks []string `json:"blocks"` // sorted; addresses of pods in them do not count

	one netip.Addr
}

// space is the number of IPv4 addresses.
const space = uint64(1) << 32

// outside groups the addresses that do not belong to pods. Addresses are in one group if no policy rule
// distinguishes them. Rules of other programs, such as the CNI, do not divide groups, because a change does
// not affect them.
func outside(clusters ...*explain.Cluster) []Addresses {
	at, foreign, pods := edgesOfAll(clusters)
	var from, to []uint64
	var some []netip.Addr
	for i := range at[1:] {
		addr, ok := sampleOutside(at[i], at[i+1], pods, foreign)
		if !ok {
			addr, ok = sampleOutside(at[i], at[i+1], pods, nil)
		}
		if ok {
			from, to, some = append(from, at[i]), append(to, at[i+1]), append(some, addr)
		}
	}
	keys := make([]string, len(some))
	for _, c := range clusters {
		for i, class := range c.Classes(some) {
			keys[i] += fmt.Sprintf("%d ", class)
		}
	}
	var out []Addresses
	place := map[string]int{}
	sets := []*netipx.IPSetBuilder{}
	for i, key := range keys {
		n, ok := place[key]
		if !ok {
			n = len(out)
			place[key] = n
			out, sets = append(out, Addresses{one: some[i]}), append(sets, &netipx.IPSetBuilder{})
		}
		sets[n].AddRange(netipx.IPRangeFrom(address(from[i]), address(to[i]-1)))
	}
	for i := range out {
		out[i].describe(sets[i])
	}
	return out
}

// edgesOfAll returns the edges of the blocks in policy rules and of set members that are not pods, such as
// nodes; the addresses that rules of other programs name; and the addresses of pods.
func edgesOfAll(clusters []*explain.Cluster) (at []uint64, foreign match.Spans, pods map[uint32]bool) {
	at, pods = []uint64{0, space}, map[uint32]bool{}
	for _, c := range clusters {
		d := c.Dump()
		for i := range d.Pods {
			if addr, ok := c.Owns(&d.Pods[i]); ok {
				pods[match.Number(addr)] = true
			}
		}
	}
	for _, c := range clusters {
		var own match.Spans
		for _, ep := range c.Dump().Endpoints {
			own = append(own, spans(ep.Applied)...)
			foreign = append(foreign, spans(ep.ForeignRules)...)
		}
		for _, s := range c.Dump().Sets {
			own = append(own, membersOutside(s, pods)...)
		}
		for _, sp := range own {
			at = append(at, uint64(sp.First), uint64(sp.Last)+1)
		}
	}
	slices.Sort(at)
	return slices.Compact(at), foreign.Sorted(), pods
}

// membersOutside returns the members of a set except addresses of pods.
func membersOutside(s state.SetDump, pods map[uint32]bool) (out match.Spans) {
	for _, m := range slices.Concat(s.Members, s.Surplus) {
		if sp, ok := match.ParseSpan(m); ok && (sp.First < sp.Last || !pods[sp.First]) {
			out = append(out, sp)
		}
	}
	return out
}

// sampleOutside returns an address from begin to before end that does not belong to a pod, and that no rule
// of another program names.
func sampleOutside(begin, end uint64, pods map[uint32]bool, foreign match.Spans) (netip.Addr, bool) {
	for n := begin; n < end; n++ {
		addr := address(n)
		if i := slices.IndexFunc(foreign, func(sp match.Span) bool { return uint64(sp.First) <= n && n <= uint64(sp.Last) }); i >= 0 {
			n = uint64(foreign[i].Last)
			continue
		}
		if !pods[uint32(n)] { //nolint:gosec // below 1<<32
			return addr, true
		}
	}
	return netip.Addr{}, false
}

// spans returns the blocks in the address fields of rules.
func spans(acls []hns.ACL) match.Spans {
	var out match.Spans
	for _, a := range acls {
		for text := range strings.SplitSeq(a.LocalAddresses+","+a.RemoteAddresses, ",") {
			if sp, ok := match.ParseSpan(text); ok {
				out = append(out, sp)
			}
		}
	}
	return out
}

func address(n uint64) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], uint32(n)) //nolint:gosec // below 1<<32
	return netip.AddrFrom4(b)
}

// nameOfAll returns one name for several groups of addresses.
func nameOfAll(groups []Addresses) string {
	var b netipx.IPSetBuilder
	for _, g := range groups {
		for _, text := range g.Blocks {
			if p, err := netip.ParsePrefix(text); err == nil {
				b.AddPrefix(p)
			}
		}
	}
	var all Addresses
	all.describe(&b)
	return all.Name
}

// describe sets Blocks and Name. The name lists the blocks, or the blocks outside of them if these are
// fewer.
func (a *Addresses) describe(b *netipx.IPSetBuilder) {
	in, err := b.IPSet()
	if err != nil { // cannot happen: the ranges are valid
		return
	}
	all := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	var rest netipx.IPSetBuilder
	rest.AddPrefix(all)
	rest.RemoveSet(in)
	out, err := rest.IPSet()
	if err != nil {
		return
	}
	blocks, others := in.Prefixes(), out.Prefixes()
	for _, p := range blocks {
		a.Blocks = append(a.Blocks, p.String())
	}
	switch {
	case len(others) == 0:
		a.Name = "every address"
	case len(others) < len(blocks):
		a.Name = "addresses not in " + listText(others, shownBlocks)
	default:
		a.Name = "addresses in " + listText(blocks, shownBlocks)
	}
}

func endpointsOf(c *explain.Cluster) map[string][]*state.EndpointDump {
	out := map[string][]*state.EndpointDump{}
	d := c.Dump()
	for i := range d.Endpoints {
		ep := &d.Endpoints[i]
		out[ep.Pod] = append(out[ep.Pod], ep)
	}
	return out
}
