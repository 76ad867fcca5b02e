package ipsets

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// differences checks that what HNS is known to hold can be told from a snapshot
// and its differences: of every set whose outcomes are known.
func (tr *trial) differences(t *rapid.T) {
	all := tr.c.Copy().Differences()
	for _, s := range tr.c.Snapshot() {
		d, differs := all[s.ID]
		delete(all, s.ID)
		require.Equal(t, tr.c.byID[s.ID].unknown, d.Unknown, s.Name)
		if s.Dirty {
			require.True(t, differs, s.Name)
		}
		n, ok := ParseName(s.Name, s.Nested)
		require.True(t, ok, s.Name)
		held, inHNS := tr.m.view[n]
		if d.Unknown || !inHNS {
			continue
		}
		require.True(t, s.InHNS)
		values := slices.Clone(s.Members)
		if s.Nested {
			values = append(values, Empty().String())
		}
		for _, v := range d.Missing {
			i := slices.Index(values, v)
			require.GreaterOrEqual(t, i, 0, "%s lacks %s, which is not in it", s.Name, v)
			values = slices.Delete(values, i, i+1)
		}
		for _, v := range d.Surplus {
			require.NotContains(t, values, v)
			values = append(values, v)
		}
		if s.Nested {
			for i, name := range values {
				values[i] = idOf([]byte(name))
			}
		}
		require.ElementsMatch(t, held, values, s.Name)
	}
	require.Empty(t, all, "of sets that are nowhere")
}

func TestDifferences(t *testing.T) {
	c := NewCache()
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0) }
	c.Now = at(1)
	one, two := netip.MustParseAddr("10.0.0.9"), netip.MustParseAddr("10.0.0.10")
	c.Hold(leafA, Ref{RefRule, "ep"})
	c.AddAddr(leafA, one)
	require.Equal(t, map[string]Difference{leafA.ID(): {Since: at(1)}}, c.Copy().Differences(), "it is not there yet")

	c.Observe([]Observed{{ID: leafA.ID(), Name: leafA.String(), Values: []string{one.String()}}}, nil)
	require.Empty(t, c.Copy().Differences())
	c.Now = at(2)
	c.AddAddr(leafA, two)
	c.Now = at(3)
	c.RemoveAddr(leafA, one)
	require.Equal(t, map[string]Difference{
		leafA.ID(): {Missing: []string{two.String()}, Surplus: []string{one.String()}, Since: at(2)},
	}, c.Copy().Differences(), "since it began to differ")

	c.Observe([]Observed{{ID: leafA.ID(), Name: leafA.String(), Values: []string{one.String(), two.String(), "10.0.0.0/8"}}}, nil)
	require.Equal(t, map[string]Difference{
		leafA.ID(): {Surplus: []string{one.String()}, Unknown: true, Since: at(2)},
	}, c.Copy().Differences(), "a value that is never ours")
	c.Observe([]Observed{{ID: leafA.ID(), Name: leafA.String(), Values: []string{two.String()}}}, nil)
	require.Empty(t, c.Copy().Differences())
}

// A nested set of a predecessor may lack the permanent member: it matches
// everything when it is empty, and who reads a snapshot has to know.
func TestDifferenceOfAnUnfilledSet(t *testing.T) {
	c := NewCache()
	c.Observe([]Observed{{ID: nested.ID(), Name: nested.String(), Nested: true}}, nil)
	require.Equal(t, map[string]Difference{nested.ID(): {Missing: []string{Empty().String()}}}, c.Copy().Differences())
}
