package scale

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go4.org/netipx"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/ipsets"
	"github.com/winnpm/winnpm/test/hnsfault"
)

// What it would save to keep a large set as a nested set of shards, for
// docs/adr/0010-large-sets-are-not-split.md. The benchmarks report its tables.

// The cluster that members come from: pods have the first addresses of the block of their node.
const (
	splitNodes       = 1000
	splitPodsPerNode = 110
)

func splitAddr(node, pod int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(64 + node>>8), byte(node), byte(4 + pod)})
}

// cut says into how many shards of what kind a set is cut; no shards: it is not.
type cut struct {
	shards int
	// byNode puts the pods of a node into one shard; otherwise addresses are
	// spread one by one.
	byNode bool
}

func (c cut) String() string {
	switch {
	case c.shards == 0:
		return "whole"
	case c.byNode:
		return "by-node"
	}
	return "by-address"
}

// shard returns where an address belongs. It follows from the address alone: a
// new process has to find the same.
func (c cut) shard(a netip.Addr) int {
	b := a.As4()
	key := uint32(b[1])<<16 | uint32(b[2])<<8
	if !c.byNode {
		key |= uint32(b[3])
	}
	key *= 0x9E3779B1
	return int(uint64(key^key>>15) * 0x85EBCA6B >> 7 % uint64(c.shards))
}

// splitSet is one set of n members in HNS, whole or cut.
type splitSet struct {
	cut     cut
	cache   *ipsets.Cache
	sim     *hnsfault.Sim
	members map[netip.Addr]bool
	random  *rand.Rand

	requests, sent int
}

func newSplitSet(t testing.TB, n int, c cut) *splitSet {
	s := &splitSet{
		cut: c, cache: ipsets.NewCache(), sim: hnsfault.New(hnsfault.Options{}),
		members: map[netip.Addr]bool{}, random: rand.New(rand.NewPCG(1, uint64(n))),
	}
	rule := ipsets.Ref{Kind: ipsets.RefRule, Owner: "endpoint"}
	if c.shards == 0 {
		s.cache.Hold(s.leaf(netip.Addr{}), rule)
	} else {
		nested := ipsets.NestedLabel("tier", "web")
		s.cache.Hold(nested, rule)
		for i := range c.shards {
			s.cache.AddMember(nested, splitShard(i))
		}
	}
	for len(s.members) < n {
		s.toggle(splitAddr(s.random.IntN(splitNodes), s.random.IntN(splitPodsPerNode)), true)
	}
	s.apply(t)
	s.requests, s.sent = 0, 0
	return s
}

func splitShard(i int) ipsets.Name { return ipsets.PodLabel("tier", fmt.Sprintf("web#%d", i)) }

func (s *splitSet) leaf(a netip.Addr) ipsets.Name {
	if s.cut.shards == 0 {
		return ipsets.PodLabel("tier", "web")
	}
	return splitShard(s.cut.shard(a))
}

// toggle makes an address a member or not. It reports whether that changed it.
func (s *splitSet) toggle(a netip.Addr, in bool) bool {
	if s.members[a] == in {
		return false
	}
	if in {
		s.members[a] = true
		s.cache.AddAddr(s.leaf(a), a)
	} else {
		delete(s.members, a)
		s.cache.RemoveAddr(s.leaf(a), a)
	}
	return true
}

// apply sends what is planned.
func (s *splitSet) apply(t testing.TB) {
	for _, r := range s.cache.Plan() {
		sets := splitRequest(r)
		s.sent += splitBytesOf(splitVerb(r.Verb), sets)
		s.requests++
		require.NoError(t, s.sim.ModifySets(t.Context(), splitVerb(r.Verb), sets))
		for _, v := range r.Sets {
			s.cache.Wrote(v)
		}
	}
}

func splitVerb(v ipsets.Verb) hns.Verb {
	if v == ipsets.Add {
		return hns.Add
	}
	return hns.Update
}

func splitRequest(r ipsets.Request) []hns.SetPolicy {
	kind := hns.IPSet
	if r.Nested {
		kind = hns.NestedIPSet
	}
	var out []hns.SetPolicy
	for _, v := range r.Sets {
		out = append(out, hns.SetPolicy{ID: v.ID, Name: v.Text, Type: kind, Values: v.Values})
	}
	return out
}

// splitBytesOf is the length of a request.
func splitBytesOf(verb hns.Verb, sets []hns.SetPolicy) int {
	return wireBytes(modify(verb, setDocuments(sets)))
}

// churn makes m events and applies them: uniform ones, or those of nodes whose
// pods all go or come. As many come as go.
func (s *splitSet) churn(t testing.TB, m int, ofNodes bool) {
	n, node := len(s.members), s.random.IntN(splitNodes)
	for done, tries := 0, 0; done < m; tries++ {
		in := done < m/2 || m == 1 && n%2 == 1
		if !ofNodes || tries >= splitPodsPerNode {
			node, tries = s.random.IntN(splitNodes), 0
		}
		pod := tries
		if !ofNodes {
			pod = s.random.IntN(splitPodsPerNode)
		}
		if s.toggle(splitAddr(node, pod), in) {
			done++
		}
	}
	s.apply(t)
}

// splitBytes is the cost model: what a transaction with m events in the set sends, in
// bytes. An event hits one of k shards, of which each is hit or not, and one that is
// hit is sent whole; k=1 is the whole set. With events of nodes m is their number.
func splitBytes(n, k, m int) float64 {
	hit := float64(k) * (1 - math.Pow(1-1/float64(k), float64(m)))
	return splitEnvelope + hit*(splitHead+splitMember*float64(n)/float64(k))
}

const (
	splitEnvelope = 75    // a request
	splitHead     = 137   // a set without its members
	splitMember   = 12.63 // a member and its comma: 10.64.0.4 to 10.67.231.113
)

// TestSplitCostModel: the formula of the ADR is what is sent; splitting neither adds
// nor saves a request; and HNS has the members and no other.
func TestSplitCostModel(t *testing.T) {
	const n, rounds = 2000, 8
	for _, c := range []cut{{}, {shards: 16}, {shards: 16, byNode: true}} {
		for _, m := range []int{1, 10, 100, 500} {
			t.Run(fmt.Sprintf("%s/%d events", c, m), func(t *testing.T) {
				s := newSplitSet(t, n, c)
				for range rounds {
					s.churn(t, m, false)
				}
				require.Equal(t, rounds, s.requests)
				require.InEpsilon(t, splitBytes(n, max(c.shards, 1), m), float64(s.sent)/rounds, 0.1)
				require.Equal(t, slices.SortedFunc(maps.Keys(s.members), netip.Addr.Compare), splitLeaves(t, s.sim))
			})
		}
	}
}

// splitLeaves returns the addresses of all leaves, in order.
func splitLeaves(t testing.TB, sim *hnsfault.Sim) []netip.Addr {
	var out []netip.Addr
	for _, p := range sim.Sets() {
		for _, v := range p.Values {
			if p.Type == hns.IPSet {
				a, err := netip.ParseAddr(v)
				require.NoError(t, err)
				out = append(out, a)
			}
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

// splitRounds is how many transactions one operation of BenchmarkSplitChurn has:
// few events hit now a few shards and now some more.
const splitRounds = 8

// BenchmarkSplitChurn is what a transaction sends of a set of 20,000: of single pods,
// in shards by address, and of whole nodes, in shards by node.
func BenchmarkSplitChurn(b *testing.B) {
	for _, shards := range []int{0, 4, 20, 80} {
		for _, c := range []cut{{shards: shards}, {shards: shards, byNode: true}} {
			churn := map[bool]string{false: "pods", true: "nodes"}[c.byNode]
			for _, m := range []int{1, 10, 100, 500} {
				b.Run(fmt.Sprintf("shards=%d/of=%s/events=%d", shards, churn, m), func(b *testing.B) {
					s := newSplitSet(b, 20_000, c)
					for b.Loop() {
						for range splitRounds {
							s.churn(b, m, c.byNode)
						}
					}
					require.Equal(b, splitRounds*b.N, s.requests)
					b.ReportMetric(float64(s.sent)/float64(s.requests), "sent-B/transaction")
					b.ReportMetric(float64(splitBytesOf("", s.sim.Sets())), "held-B")
				})
			}
		}
	}
}

// BenchmarkSplitSet is the agent's part of one event in a set of 20,000: the
// members, the plan and the request.
func BenchmarkSplitSet(b *testing.B) {
	for _, shards := range []int{0, 20, 80} {
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			s := newSplitSet(b, 20_000, cut{shards: shards, byNode: true})
			a, in := splitAddr(0, splitPodsPerNode), false // nobody's
			b.ReportAllocs()
			for b.Loop() {
				in = !in
				s.toggle(a, in)
				for _, r := range s.cache.Plan() {
					s.sent += splitBytesOf(splitVerb(r.Verb), splitRequest(r))
					for _, v := range r.Sets {
						s.cache.Wrote(v)
					}
				}
			}
			b.ReportMetric(float64(s.sent)/float64(b.N), "sent-B/op")
		})
	}
}

// BenchmarkBlocksInsteadOfAddresses reports what remains of a set's values when
// addresses that fill a block are written as the block, which means the same: for
// sets that have a share of each node's pods, on nodes that gave addresses away in
// order, and at random.
func BenchmarkBlocksInsteadOfAddresses(b *testing.B) {
	for _, percent := range []int{100, 90, 50, 20} {
		for _, given := range []string{"in-order", "at-random"} {
			b.Run(fmt.Sprintf("share=%d/%s", percent, given), func(b *testing.B) {
				var addresses, blocks int
				for b.Loop() {
					addresses, blocks = splitBlocks(b, percent, given == "at-random")
				}
				b.ReportMetric(100*float64(blocks)/float64(addresses), "percent-of-B")
			})
		}
	}
}

// splitBlocks returns the bytes of a set's values as addresses and as blocks.
func splitBlocks(t testing.TB, percent int, random bool) (addresses, blocks int) {
	r := rand.New(rand.NewPCG(1, 2))
	var b netipx.IPSetBuilder
	for node := range 200 {
		given := splitPodsPerNode
		if random {
			given = 250
		}
		for _, pod := range r.Perm(given)[:percent*splitPodsPerNode/100] {
			b.Add(splitAddr(node, pod))
		}
	}
	set, err := b.IPSet()
	require.NoError(t, err)
	for _, p := range set.Prefixes() {
		if p.IsSingleIP() {
			blocks += len(p.Addr().String()) + 1
		} else {
			blocks += len(p.String()) + 1
		}
		for a := p.Addr(); p.Contains(a); a = a.Next() {
			addresses += len(a.String()) + 1
		}
	}
	return addresses, blocks
}
