package ipsets

import (
	"cmp"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProgrammed(t *testing.T) {
	c := NewCache()
	ns, web := Namespace("x"), PodLabel("app", "web")
	for _, n := range []Name{ns, web} {
		c.Hold(n, Ref{Kind: RefRule, Owner: "e1"})
	}
	c.Hold(ns, Ref{Kind: RefPin, Owner: "e1"})
	c.AddAddr(ns, netip.MustParseAddr("10.0.0.1"))
	require.Empty(t, c.Programmed(), "wanted is not programmed")

	c.Wrote(SetValue{Name: ns, ID: ns.ID(), Values: []string{"10.0.0.1", "10.0.0.12"}})
	c.Wrote(SetValue{Name: web, ID: web.ID()})
	got := c.Programmed()
	slices.SortFunc(got, func(a, b Programmed) int { return cmp.Compare(a.Name, b.Name) })
	require.Equal(t, []Programmed{
		{ID: ns.ID(), Name: "ns-x", Entries: 2},
		{ID: web.ID(), Name: "podlabel-app:web"},
	}, got)

	c.Removed(ns)
	c.Release(ns, Ref{Kind: RefPin, Owner: "e1"})
	require.Len(t, c.Programmed(), 1)
	require.False(t, c.Present(ns))
	require.True(t, c.Present(web))
}
