package ipsets

import (
	"cmp"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"testing"

	"github.com/winnpm/winnpm/test/process"
)

// The candidates for the members of a set, for docs/adr/0008-compact-sets.md: each
// is filled in no order, is added to and taken from, and lists itself in order.

// candidate is one of them, with its keys.
type candidate[K any] struct {
	key  func(netip.Addr) K
	make func() content[K]
}

// content is what a set does with its members.
type content[K any] interface {
	want(k K, yes bool) bool
	reach(keys []K) (came, went []K)
	list() []K
}

type mapped[K comparable] struct {
	tracker[K]
	compare func(a, b K) int
}

func (m *mapped[K]) list() []K { return m.sorted(wanted, m.compare) }

// slice keeps addresses in order, with their bits beside them.
type slice struct {
	keys []addr
	bits []uint8
}

func (s *slice) want(k addr, yes bool) bool {
	i, found := slices.BinarySearch(s.keys, k)
	if !found {
		if !yes {
			return false
		}
		s.keys, s.bits = slices.Insert(s.keys, i, k), slices.Insert(s.bits, i, wanted)
		return true
	}
	before := s.bits[i]
	if s.bits[i] &^= wanted; yes {
		s.bits[i] |= wanted
	}
	if s.bits[i] == 0 {
		s.keys, s.bits = slices.Delete(s.keys, i, i+1), slices.Delete(s.bits, i, i+1)
		return true
	}
	return s.bits[i] != before
}

func (s *slice) reach(keys []addr) (came, went []addr) {
	at, out := 0, 0
	for i, k := range s.keys { // of the benchmark: keys are wanted
		for at < len(keys) && keys[at] < k {
			at++
		}
		after := s.bits[i] &^ applied
		if at < len(keys) && keys[at] == k {
			after |= applied
		}
		switch {
		case after&^s.bits[i] != 0:
			came = append(came, k)
		case s.bits[i]&^after != 0:
			went = append(went, k)
		}
		if after != 0 {
			s.keys[out], s.bits[out] = k, after
			out++
		}
	}
	s.keys, s.bits = s.keys[:out], s.bits[:out]
	return came, went
}

func (s *slice) list() []addr {
	out := make([]addr, 0, len(s.keys))
	for i, k := range s.keys {
		if s.bits[i]&wanted != 0 {
			out = append(out, k)
		}
	}
	return out
}

func BenchmarkCompact(b *testing.B) {
	number := func(a netip.Addr) addr { n, _ := addrOf(a); return n }
	b.Run("map-addr", func(b *testing.B) {
		compact(b, candidate[addr]{number, func() content[addr] { return &mapped[addr]{compare: cmp.Compare[addr]} }})
	})
	b.Run("map-netip", func(b *testing.B) {
		compact(b, candidate[netip.Addr]{func(a netip.Addr) netip.Addr { return a }, func() content[netip.Addr] {
			return &mapped[netip.Addr]{compare: netip.Addr.Compare}
		}})
	})
	b.Run("slice", func(b *testing.B) {
		compact(b, candidate[addr]{number, func() content[addr] { return &slice{} }})
	})
}

func compact[K any](b *testing.B, c candidate[K]) {
	keys := make([]K, manyMembers)
	for i, n := range rand.New(rand.NewPCG(1, 2)).Perm(manyMembers) {
		keys[i] = c.key(nth(n * 7))
	}
	more := c.key(nth(manyMembers / 2 * 7).Next())
	fill := func() content[K] {
		set := c.make()
		for _, k := range keys {
			set.want(k, true)
		}
		return set
	}
	b.Run("fill", func(b *testing.B) {
		before := process.Live()
		set := fill()
		size := process.Live() - before
		runtime.KeepAlive(set)
		for b.Loop() {
			fill()
		}
		b.ReportMetric(float64(size)/manyMembers, "live-B/member")
	})
	b.Run("one", func(b *testing.B) {
		set := fill()
		for b.Loop() {
			set.want(more, true)
			set.want(more, false)
		}
	})
	b.Run("list-and-reach", func(b *testing.B) {
		set := fill()
		for b.Loop() {
			set.reach(set.list())
		}
	})
}
