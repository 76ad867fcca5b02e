package ipsets

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"
)

const manyMembers = 20_000

// nth returns the n-th address of a large block.
func nth(n int) netip.Addr {
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], 10<<24|uint32(n))
	return netip.AddrFrom4(a)
}

// large is a cache with a set of 20,000 members, programmed.
func large(b *testing.B) *Cache {
	b.Helper()
	c := NewCache()
	c.Hold(nsX, rule)
	for n := range manyMembers {
		c.AddAddr(nsX, nth(n))
	}
	for _, r := range c.Plan() {
		done(c, r)
	}
	return c
}

// BenchmarkOneMember is one address joining and leaving: its cost must not
// depend on the size of the set.
func BenchmarkOneMember(b *testing.B) {
	c := large(b)
	for b.Loop() {
		c.AddAddr(nsX, nth(manyMembers))
		c.RemoveAddr(nsX, nth(manyMembers))
	}
}

// BenchmarkOneMemberWritten is the same with both plans made and recorded.
func BenchmarkOneMemberWritten(b *testing.B) {
	c := large(b)
	for b.Loop() {
		c.AddAddr(nsX, nth(manyMembers))
		done(c, c.Plan()[0])
		c.RemoveAddr(nsX, nth(manyMembers))
		done(c, c.Plan()[0])
	}
}

// BenchmarkPlanOfNothing is a round in which nothing changed, among many sets.
func BenchmarkPlanOfNothing(b *testing.B) {
	c := NewCache()
	for n := range 5000 {
		set := Namespace(fmt.Sprint("ns-", n))
		c.Hold(set, rule)
		c.AddAddr(set, nth(n))
	}
	for _, r := range c.Plan() {
		done(c, r)
	}
	for b.Loop() {
		if c.Plan() != nil || c.PlanRemovals(c.now, nil) != nil || !c.Settled() {
			b.Fatal("something differs")
		}
	}
}

// BenchmarkFill is the first sync of a large cluster into ten sets.
func BenchmarkFill(b *testing.B) {
	for b.Loop() {
		c := NewCache()
		for s := range 10 {
			set := PodLabel("app", fmt.Sprint(s))
			c.Hold(set, rule)
			for n := range manyMembers {
				c.AddAddr(set, nth(n))
			}
		}
	}
}
