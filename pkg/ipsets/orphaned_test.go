package ipsets

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// leftBehind is a Cache of a new process that found sets in HNS.
func leftBehind(t *testing.T, found ...Observed) *Cache {
	t.Helper()
	c := NewCache()
	require.Len(t, c.Observe(found, nil), len(found))
	require.Empty(t, c.TakeOrphans(), "no rule names them")
	return c
}

func asFound(n Name, values ...string) Observed {
	return Observed{ID: n.ID(), Name: n.String(), Nested: n.Nested(), Values: values}
}

// TestOrphanIsToldOnce: a set that only rules in HNS name is told once, fed when it is
// defined, and gone with its last reference.
func TestOrphanIsToldOnce(t *testing.T) {
	found := asFound(leafA, "10.0.0.1")
	c := leftBehind(t, found)
	c.Hold(leafA, onEP)
	c.Hold(leafA, pin)
	require.Equal(t, []Name{leafA}, c.TakeOrphans())
	require.Empty(t, c.TakeOrphans())
	require.Nil(t, c.Plan(), "nobody says what belongs into it")

	require.True(t, c.Define(leafA))
	require.False(t, c.Define(leafA))
	c.AddAddr(leafA, addr1)
	require.Nil(t, c.Plan(), "it is right")
	c.AddAddr(leafA, addr2)
	c.RemoveAddr(leafA, addr1)
	plan := c.Plan()
	same(t, `set  update  podlabel-app:a  10.0.0.2`, plan)
	require.Equal(t, found.ID, plan[0].Sets[0].ID)
	done(c, plan[0])

	c.Release(leafA, onEP)
	require.True(t, c.Has(leafA), "a pending update may need it")
	c.Release(leafA, pin)
	require.False(t, c.Has(leafA))
	same(t, `set  delete  podlabel-app:a`, c.PlanRemovals(c.Now, nil))
	mustBug(t, "no reference", func() { c.Define(leafA) })
	done(c, c.PlanRemovals(c.Now, nil)[0])
	require.Empty(t, c.byID)
}

// TestOrphanIsNoMore: what is let go or defined before it is taken is none.
func TestOrphanIsNoMore(t *testing.T) {
	c := leftBehind(t, asFound(leafA), asFound(leafB))
	c.Hold(leafA, onEP)
	c.Hold(leafB, onEP)
	c.Release(leafA, onEP)
	c.Hold(leafB, rule)
	require.Empty(t, c.TakeOrphans())
}

// TestOrphanWithUnknownOutcome waits until it is known to be there.
func TestOrphanWithUnknownOutcome(t *testing.T) {
	c := leftBehind(t, asFound(nsX))
	c.Unknown(nsX)
	c.Hold(nsX, onEP)
	require.Empty(t, c.TakeOrphans())
	c.Observe([]Observed{asFound(nsX)}, nil)
	require.Equal(t, []Name{nsX}, c.TakeOrphans())
}

// TestOrphanNested: rules see through a nested set to its leaves, also while
// nobody knows what belongs into it, and as long as HNS has them in there.
func TestOrphanNested(t *testing.T) {
	found := []Observed{
		asFound(Empty()), asFound(leafA, "10.0.0.1"), asFound(leafB), {ID: idPrefix + "cidr", Name: "cidr-x", Values: []string{"10.9.0.0/16"}},
		asFound(nested, Empty().ID(), leafA.ID(), idPrefix+"cidr"),
	}
	c := leftBehind(t, found...)
	c.Hold(nested, onEP)
	require.ElementsMatch(t, []Name{nested, leafA, Empty()}, c.TakeOrphans())
	members, exact := c.Contained(nested)
	require.True(t, exact)
	require.ElementsMatch(t, []Name{leafA, nameOf(found[3])}, members)

	require.True(t, c.Define(leafA))
	c.AddAddr(leafA, addr2)
	same(t, `set  update  podlabel-app:a  10.0.0.2`, c.Plan())
	done(c, c.Plan()[0])

	t.Run("other members", func(t *testing.T) {
		found[1].Values, found[4].Values = []string{"10.0.0.2"}, []string{leafA.ID(), leafB.ID()}
		c.Observe(found, nil)
		require.ElementsMatch(t, []Name{nested, leafB}, c.TakeOrphans(), "they may tell what it is")
		c.Observe(found, nil)
		require.Empty(t, c.TakeOrphans())
	})
	t.Run("what it is to lose", func(t *testing.T) {
		require.True(t, c.Define(nested))
		require.True(t, c.AddMember(nested, leafB))
		require.True(t, c.Has(leafA), "HNS has it in there")
		same(t, `nest update  nestedlabel-app:a:b  -> empty-emptyhashset podlabel-app:b`, c.Plan())
		done(c, c.Plan()[0])
		require.False(t, c.Has(leafA))
	})
	t.Run("strange members", func(t *testing.T) {
		found[4].Values = append(found[4].Values, idPrefix+"nobody's")
		c.Observe(found, nil)
		_, exact := c.Contained(nested)
		require.False(t, exact)
		_, exact = c.Contained(spaces)
		require.False(t, exact, "not there")
	})
	c.Release(nested, onEP)
	for _, n := range []Name{nested, leafA, leafB, Empty()} {
		require.False(t, c.Has(n), "%s", n)
	}
	require.Len(t, c.PlanRemovals(c.Now, nil), 2)
}
