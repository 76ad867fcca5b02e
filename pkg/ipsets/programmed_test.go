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
	require.Equal(t, 1, c.Pinned())

	c.Wrote(SetValue{Name: ns, ID: ns.ID(), Values: []string{"10.0.0.1", "10.0.0.12"}})
	c.Wrote(SetValue{Name: web, ID: web.ID()})
	got := c.Programmed()
	slices.SortFunc(got, func(a, b Programmed) int { return cmp.Compare(a.Name, b.Name) })
	require.Equal(t, []Programmed{
		{ID: ns.ID(), Name: "ns-x", Entries: 2, Bytes: len("10.0.0.1,10.0.0.12")},
		{ID: web.ID(), Name: "podlabel-app:web"},
	}, got)

	c.Removed(ns)
	c.Release(ns, Ref{Kind: RefPin, Owner: "e1"})
	require.Len(t, c.Programmed(), 1)
	require.Zero(t, c.Pinned())
}

// What an observation shows that was not known is drift; what it confirms, or
// what had an unknown outcome, is none.
func TestObserveTellsDrift(t *testing.T) {
	leaf, nested := Namespace("x"), NamespaceSelector("{}")
	list := func(values ...string) []Observed {
		return []Observed{
			{ID: leaf.ID(), Name: leaf.String(), Values: values},
			{ID: nested.ID(), Name: nested.String(), Nested: true, Values: []string{leaf.ID()}},
		}
	}
	for name, tc := range map[string]struct {
		before func(*Cache)
		seen   []Observed
		want   []Name
	}{
		"as known":         {nil, list("10.0.0.1"), nil},
		"another member":   {nil, list("10.0.0.1", "10.0.0.2"), []Name{leaf}},
		"a member less":    {nil, list(), []Name{leaf}},
		"not ours at all":  {nil, list("10.0.0.1", "everything"), []Name{leaf}},
		"another type":     {nil, []Observed{{ID: leaf.ID(), Name: leaf.String(), Nested: true}, list()[1]}, []Name{leaf}},
		"another list":     {nil, append(list("10.0.0.1")[:1], Observed{ID: nested.ID(), Name: nested.String(), Nested: true}), []Name{nested}},
		"gone":             {nil, list("10.0.0.1")[:1], []Name{nested}},
		"a stranger":       {nil, append(list("10.0.0.1"), Observed{ID: Namespace("y").ID(), Name: "ns-y"}), []Name{Namespace("y")}},
		"unknown and here": {func(c *Cache) { c.Unknown(leaf) }, list("10.0.0.9"), nil},
		"unknown and gone": {func(c *Cache) { c.Unknown(nested) }, list("10.0.0.1")[:1], nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewCache()
			require.Len(t, c.Observe(list("10.0.0.1"), nil), 2, "all is new at first")
			require.Empty(t, c.Observe(list("10.0.0.1"), nil))
			if tc.before != nil {
				tc.before(c)
			}
			require.ElementsMatch(t, tc.want, c.Observe(tc.seen, nil))
			require.Empty(t, c.Observe(tc.seen, nil), "seen once is known")
		})
	}
}
