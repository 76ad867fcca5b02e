package ipsets

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// What an observation shows that was not known is drift; what it confirms, or
// what had an unknown outcome, is none.
func TestObserveTellsDrift(t *testing.T) {
	leaf, nested, stranger := Namespace("x"), NamespaceSelector("{}"), Namespace("y")
	list := func(values ...string) []Observed {
		return []Observed{
			{ID: leaf.ID(), Name: leaf.String(), Values: values},
			{ID: nested.ID(), Name: nested.String(), Nested: true, Values: []string{leaf.ID()}},
		}
	}
	for name, tc := range map[string]struct {
		before func(*Cache)
		seen   []Observed
		want   []Drift
	}{
		"as known":       {nil, list("10.0.0.1"), nil},
		"another member": {nil, list("10.0.0.1", "10.0.0.2"), []Drift{{Name: leaf, Added: 1}}},
		"a member less":  {nil, list(), []Drift{{Name: leaf, Missing: 1}}},
		"all others":     {nil, list("10.0.0.2", "10.0.0.3"), []Drift{{Name: leaf, Added: 2, Missing: 1}}},
		"none of ours":   {nil, list("10.0.0.1", "everything"), []Drift{{Name: leaf, Added: 1}}},
		"another type": {nil, []Observed{{ID: leaf.ID(), Name: leaf.String(), Nested: true}, list()[1]},
			[]Drift{{Name: leaf, Retyped: true, Missing: 1}}},
		"another list": {nil, append(list("10.0.0.1")[:1], Observed{ID: nested.ID(), Name: nested.String(), Nested: true, Values: []string{"azure-npm-0"}}),
			[]Drift{{Name: nested, Added: 1, Missing: 1}}},
		"gone":             {nil, list("10.0.0.1")[:1], []Drift{{Name: nested, Gone: true}}},
		"a stranger":       {nil, append(list("10.0.0.1"), Observed{ID: stranger.ID(), Name: "ns-y"}), []Drift{{Name: stranger, Appeared: true}}},
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

// A value that is no set's is drift once, when it comes.
func TestObserveTellsStrangeValues(t *testing.T) {
	c, leaf := NewCache(), Namespace("x")
	see := func(values ...string) []Drift {
		return c.Observe([]Observed{{ID: leaf.ID(), Name: leaf.String(), Values: values}}, nil)
	}
	see("10.0.0.1")
	require.Equal(t, []Drift{{Name: leaf, Added: 1}}, see("10.0.0.1", "everything"))
	require.Empty(t, see("10.0.0.1", "everything"))
	require.Empty(t, see("10.0.0.1"))
	require.Equal(t, []Drift{{Name: leaf, Added: 2}}, see("10.0.0.1", "everything", "nothing"))
}

// Whether there is something to write tells a set that a rule needs from one
// that only waits to be removed, and both from one that is as it should be.
func TestOutstanding(t *testing.T) {
	c, leaf, spare := NewCache(), Namespace("x"), Namespace("y")
	both := []Observed{{ID: leaf.ID(), Name: leaf.String(), Values: []string{"10.0.0.1"}}, {ID: spare.ID(), Name: spare.String()}}
	c.Hold(leaf, Ref{Kind: RefRule, Owner: "e1"})
	c.AddAddr(leaf, netip.MustParseAddr("10.0.0.1"))
	require.True(t, c.Outstanding(leaf), "to be made")
	require.False(t, c.Outstanding(spare), "never heard of")
	require.ElementsMatch(t, []Drift{{Name: leaf, Needed: true, Appeared: true, Added: 1}, {Name: spare, Appeared: true}}, c.Observe(both, nil))
	require.False(t, c.Outstanding(leaf))
	require.True(t, c.Outstanding(spare), "to be removed")
	require.ElementsMatch(t, []Drift{{Name: leaf, Needed: true, Gone: true}, {Name: spare, Gone: true}}, c.Observe(nil, nil))
	require.True(t, c.Outstanding(leaf))
	require.False(t, c.Outstanding(spare))
	c.Unknown(spare)
	require.True(t, c.Outstanding(spare))
}
