package ipsets

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// oldOf is a set as the predecessor's older releases left it.
func oldOf(n Name, values ...string) Observed {
	return Observed{ID: oldIDOf(n.String()), Name: n.String(), Nested: n.Nested(), Values: values}
}

// TestOldID has ids that an older release was seen to give: FNV-1a 32.
func TestOldID(t *testing.T) {
	require.Equal(t, "azure-npm-2166136261", oldIDOf(""), "the offset of the hash")
	require.Equal(t, "azure-npm-3826002220", oldIDOf("a"), "the published test vector e40c292c")
	require.Equal(t, Namespace("x"), nameOf(oldOf(Namespace("x"))))
	require.False(t, nameOf(Observed{ID: oldIDOf("ns-x"), Name: "ns-y"}).known())
	require.False(t, nameOf(Observed{ID: oldIDOf("ns-x"), Name: "ns-x", Nested: true}).known())
}

const planOfOldIDs = `
		set  create  ns-x
		--
		set  update  podlabel-app:a  10.0.0.1 10.0.0.2
		--
		nest update  nestedlabel-app:a:b  -> empty-emptyhashset ns-x podlabel-app:a podlabel-app:b`

// TestOldIDIsKept: a set of a wanted name under an older id is that set, whether
// it is wanted before or after it is found: what is right is not written, and
// what is wrong is updated under the id that it has.
func TestOldIDIsKept(t *testing.T) {
	for _, first := range []string{"wanted first", "found first"} {
		t.Run(first, func(t *testing.T) {
			c := NewCache()
			found := []Observed{
				oldOf(Empty()), oldOf(leafA, "10.0.0.1"), oldOf(leafB),
				oldOf(nested, oldIDOf(Empty().String()), oldIDOf(leafA.String())),
			}
			if first == "found first" {
				require.Len(t, c.Observe(found, nil), len(found))
			}
			c.Hold(nested, rule)
			c.AddMember(nested, leafA)
			c.AddAddr(leafA, addr1)
			if first == "wanted first" {
				require.Equal(t, leafA.ID(), c.ID(leafA))
				c.Observe(found, nil)
				require.ElementsMatch(t, []Name{nested, Empty(), leafA}, c.TakeAdopted())
			}
			require.Empty(t, c.TakeAdopted())
			require.Empty(t, c.Plan())
			require.True(t, c.Ready(nested))
			require.Equal(t, oldIDOf(leafA.String()), c.ID(leafA))
			n, ok := c.Lookup(oldIDOf(leafA.String()))
			require.True(t, ok)
			require.Equal(t, leafA, n)
			_, ok = c.Lookup(leafA.ID())
			require.False(t, ok)

			c.AddMember(nested, leafB)
			c.AddMember(nested, nsX)
			c.AddAddr(leafA, addr2)
			plan := c.Plan()
			same(t, planOfOldIDs, plan)
			require.Equal(t, oldIDOf(leafA.String()), plan[1].Sets[0].ID)
			require.ElementsMatch(t, []string{
				oldIDOf(Empty().String()), oldIDOf(leafA.String()), oldIDOf(leafB.String()), nsX.ID(),
			}, plan[2].Sets[0].Values)
			require.Empty(t, c.Observe(found, nil), "what is known is no drift")
		})
	}
}

// TestOldIDForgetsRefusal: HNS refused the set because its name was taken; under
// the id that has the name nothing was refused.
func TestOldIDForgetsRefusal(t *testing.T) {
	c := NewCache()
	c.Hold(nsX, rule)
	c.AddAddr(nsX, addr1)
	c.Reject(nsX)
	require.True(t, c.Rejected(nsX))
	c.Observe([]Observed{oldOf(nsX)}, nil)
	require.False(t, c.Rejected(nsX))
	plan := c.Plan()
	require.Len(t, plan, 1)
	require.Equal(t, Update, plan[0].Verb)
	require.Equal(t, oldIDOf("ns-x"), plan[0].Sets[0].ID)
}

// TestOldIDBesideToday: while a set is known under one id another id of its name
// is a stranger, then and when it is seen again.
func TestOldIDBesideToday(t *testing.T) {
	for _, both := range [][]Observed{
		{{ID: nsX.ID(), Name: "ns-x"}, oldOf(nsX)},
		{oldOf(nsX), {ID: nsX.ID(), Name: "ns-x"}},
	} {
		c := NewCache()
		c.Hold(nsX, rule)
		c.Observe(both[:1], nil)
		for range 2 {
			c.Observe(both, nil)
			require.Equal(t, both[0].ID, c.ID(nsX))
			stranger, ok := c.Lookup(both[1].ID)
			require.True(t, ok)
			require.False(t, stranger.known())
		}
		c.Observe(both[1:], nil)
		require.Equal(t, both[0].ID, c.ID(nsX))
		require.False(t, c.Ready(nsX))
	}
}
