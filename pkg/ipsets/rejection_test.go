package ipsets

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRejectionEnds: a set is rejected until its desired content changes, whatever to, or HNS takes it.
func TestRejectionEnds(t *testing.T) {
	leaf := func(c *Cache) {
		c.Hold(leafA, rule)
		c.AddAddr(leafA, addr1)
	}
	list := func(c *Cache) {
		c.Hold(nested, rule)
		c.AddMember(nested, leafA)
	}
	for name, tt := range map[string]struct {
		set        Name
		begin      func(*Cache)
		away, back func(*Cache)
	}{
		"a leaf":       {leafA, leaf, func(c *Cache) { c.AddAddr(leafA, addr3) }, func(c *Cache) { c.RemoveAddr(leafA, addr3) }},
		"an empty one": {leafA, func(c *Cache) { c.Hold(leafA, rule) }, func(c *Cache) { c.AddAddr(leafA, addr1) }, func(c *Cache) { c.RemoveAddr(leafA, addr1) }},
		"a nested set": {nested, list, func(c *Cache) { c.AddMember(nested, leafB) }, func(c *Cache) { c.RemoveMember(nested, leafB) }},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewCache()
			tt.begin(c)
			c.Reject(tt.set)
			tt.away(c)
			require.False(t, c.Rejected(tt.set))
			tt.back(c)
			require.False(t, c.Rejected(tt.set), "it is asked again")
			c.Reject(tt.set)
			require.True(t, c.Rejected(tt.set))
			c.Wrote(SetValue{Name: tt.set})
			require.False(t, c.Rejected(tt.set), "HNS took it")
		})
	}
	t.Run("a member that is gone", func(t *testing.T) {
		c := NewCache()
		list(c)
		c.Reject(nested)
		c.RemoveMember(nested, leafA)
		require.False(t, c.Rejected(nested))
	})
}
