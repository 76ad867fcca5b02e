package whatif

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

// Addresses are some that are no pod's, which no policy tells apart.
type Addresses struct {
	Name   string   `json:"name"`
	Blocks []string `json:"blocks"` // sorted; pods in them are not meant

	one netip.Addr
}

// space is the number of IPv4 addresses.
const space = uint64(1) << 32

// outside groups the addresses that are no pod's by what the rules of policies say of them.
// Rules of others, like the CNI's, do not divide the groups: a change leaves them as they
// are.
func outside(clusters ...*explain.Cluster) []Addresses {
	at, foreign, pods := edgesOfAll(clusters)
	var from, to []uint64
	var some []netip.Addr
	for i := range at[1:] {
		addr, ok := nobody(at[i], at[i+1], pods, foreign)
		if !ok {
			addr, ok = nobody(at[i], at[i+1], pods, nil)
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

// edgesOfAll returns where rules of policies begin and end, and members of sets that are
// no pod's, like nodes; the addresses that rules of others name; and those of pods.
func edgesOfAll(clusters []*explain.Cluster) (at []uint64, foreign match.Spans, pods map[uint32]bool) {
	at, pods = []uint64{0, space}, map[uint32]bool{}
	for _, c := range clusters {
		d := c.Dump()
		for i := range d.Pods {
			if addr, ok := c.Owns(&d.Pods[i]); ok {
				pods[explain.Number(addr)] = true
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

// membersOutside returns the members of a set that are not the address of a pod.
func membersOutside(s state.SetDump, pods map[uint32]bool) (out match.Spans) {
	for _, m := range slices.Concat(s.Members, s.Surplus) {
		if sp, ok := match.ParseSpan(m); ok && (sp.First < sp.Last || !pods[sp.First]) {
			out = append(out, sp)
		}
	}
	return out
}

// nobody returns an address below end that belongs to no pod and that no rule of another owner names.
func nobody(begin, end uint64, pods map[uint32]bool, foreign match.Spans) (netip.Addr, bool) {
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

// spans returns the blocks that rules name.
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

// together names several groups of addresses as one.
func together(groups []Addresses) string {
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

// describe names the addresses of a set by their blocks, or by those that they
// are not in, whichever is shorter.
func (a *Addresses) describe(b *netipx.IPSetBuilder) {
	in, err := b.IPSet()
	if err != nil { // ranges of addresses are a set
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
