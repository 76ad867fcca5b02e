package ipsets

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNestedLeavesARejectedMemberOut(t *testing.T) {
	w := newWorld(t)
	w.nest(nested, rule, map[Name]netip.Addr{leafA: addr1, leafB: addr2})
	w.Reject(leafB)
	require.Equal(t, 2, w.Len(nested))
	require.True(t, w.HasMember(nested, leafB))
	require.True(t, w.Contains(nested, addr2), "desired it is")
	same(t, `
		set  create  empty-emptyhashset
		set  create  podlabel-app:a  10.0.0.1
		--
		nest create  nestedlabel-app:a:b  -> empty-emptyhashset podlabel-app:a`, w.Plan())
	require.NoError(t, w.hns.run(w.Cache, w.Plan()))
	require.True(t, w.Ready(nested))
	require.False(t, w.Settled())

	w.AddAddr(leafB, addr3)
	same(t, `
		set  create  podlabel-app:b  10.0.0.2 10.0.0.10
		--
		nest update  nestedlabel-app:a:b  -> empty-emptyhashset podlabel-app:a podlabel-app:b`, w.Plan())
	w.apply()

	w.RemoveAddr(leafB, addr2) // an Update is refused too: the old content must not stay allowed
	w.Reject(leafB)
	same(t, `nest update  nestedlabel-app:a:b  -> empty-emptyhashset podlabel-app:a`, w.Plan())
	w.RemoveMember(nested, leafB)
	require.Equal(t, 1, w.Len(nested))

	w.Hold(nsX, rule)
	w.Reject(nsX)
	w.AddMember(nested, nsX)
	require.NotContains(t, planText(w.Plan()), "ns-x", "it was refused before it joined")
}

// Without its permanent member a nested set is not written at all.
func TestRejectedFillerBlocksNested(t *testing.T) {
	w := newWorld(t)
	w.nest(nested, rule, map[Name]netip.Addr{leafA: addr1})
	w.Reject(Empty())
	same(t, `set  create  podlabel-app:a  10.0.0.1`, w.Plan())
}

func TestObserveIsTheWholeTruth(t *testing.T) {
	w := newWorld(t)
	w.nest(nested, rule, map[Name]netip.Addr{leafA: addr1})
	w.Hold(nsX, rule)
	w.AddAddr(nsX, addr1)
	w.apply()

	t.Run("what differs is written", func(t *testing.T) {
		list := w.hns.list()
		for i := range list {
			if list[i].ID == nsX.ID() {
				list[i].Values = []string{"10.0.0.9", "10.0.0.1", "10.0.0.9"}
			}
		}
		w.Observe(list, nil)
		same(t, `set  update  ns-x  10.0.0.1`, w.Plan())
		w.apply()
	})
	t.Run("what cannot be ours is overwritten", func(t *testing.T) {
		list := w.hns.list()
		for i := range list {
			switch list[i].ID {
			case nsX.ID():
				list[i].Values = []string{"10.0.0.1", "10.1.0.0/16"}
			case nested.ID():
				list[i].Values = append(list[i].Values, "azure-npm-unseen")
			}
		}
		w.Observe(list, nil)
		same(t, `
		set  update  ns-x  10.0.0.1
		--
		nest update  nestedlabel-app:a:b  -> empty-emptyhashset podlabel-app:a`, w.Plan())
		w.apply()
	})
	t.Run("lists are one level deep", func(t *testing.T) {
		list := w.hns.list()
		for i := range list {
			if list[i].ID == nested.ID() {
				list[i].Values = append(list[i].Values, spaces.ID())
			}
		}
		w.Observe(append(list, Observed{ID: spaces.ID(), Name: spaces.String(), Nested: true}), nil)
		same(t, `nest update  nestedlabel-app:a:b  -> empty-emptyhashset podlabel-app:a`, w.Plan())
		w.apply()
		w.Observe(w.hns.list(), nil)
	})
}

func TestObservedTypeIsWrong(t *testing.T) {
	w := newWorld(t)
	w.Hold(nsX, rule)
	w.Observe([]Observed{{ID: nsX.ID(), Name: "ns-x", Nested: true}}, nil)
	same(t, `set  update  ns-x`, w.Plan())

	w = newWorld(t)
	w.Observe([]Observed{{ID: nsX.ID(), Name: "ns-x", Nested: true}}, nil)
	n, _ := w.Lookup(nsX.ID())
	require.True(t, n.Nested(), "an orphan is of the type that HNS says")
	require.True(t, w.Hold(nsX, rule))
	same(t, `set  update  ns-x`, w.Plan())
}

// Sets of an earlier life are adopted with their content, and deleted when
// nobody defines them.
func TestOrphans(t *testing.T) {
	before := newWorld(t)
	before.nest(nested, rule, map[Name]netip.Addr{leafA: addr1, leafB: addr2})
	before.Hold(nsX, rule)
	before.apply()
	before.hns.sets["azure-npm-123"] = hnsSet{name: "podlabel-app:a", values: []string{"10.0.0.7"}}
	before.hns.sets["azure-npm-124"] = hnsSet{name: "old list", nested: true, values: []string{Empty().ID(), "azure-npm-123"}}

	w := &world{NewCache(), t, before.hns}
	w.Observe(w.hns.list(), nil)
	require.Nil(t, w.Plan())
	require.True(t, w.Settled())
	w.nest(nested, rule, map[Name]netip.Addr{leafA: addr1, leafB: addr2})
	require.Nil(t, w.Plan(), "nothing changed, nothing is written")

	plan := w.PlanRemovals(w.Now, nil)
	same(t, `
		nest delete  old list
		--
		set  delete  ns-x
		set  delete  podlabel-app:a`, plan)
	require.Equal(t, "azure-npm-123", plan[1].Sets[1].ID)
	require.Equal(t, []string{"10.0.0.7"}, plan[1].Sets[1].Values)
	require.NoError(t, w.hns.run(w.Cache, plan))
	require.Nil(t, w.PlanRemovals(w.Now, nil))
	require.Len(t, w.hns.sets, 4)
}

func TestOrphanUnderAnotherNameIsAdopted(t *testing.T) {
	w := newWorld(t)
	w.hns.sets[nsX.ID()] = hnsSet{name: "renamed", values: []string{"10.0.0.1"}}
	w.Observe(w.hns.list(), nil)
	n, _ := w.Lookup(nsX.ID())
	require.NotEqual(t, nsX, n)
	require.False(t, w.Hold(n, onEP))
	w.Hold(spaces, selector)
	require.True(t, w.AddMember(spaces, nsX))
	w.AddAddr(nsX, addr1)
	require.Nil(t, w.Plan())
	require.True(t, w.Ready(nsX))
	require.True(t, w.Holds(nsX, onEP), "who held the orphan holds the set")
	w.Release(n, onEP)
	require.False(t, w.Holds(nsX, onEP))
	w.Observe(w.hns.list(), nil)
	require.True(t, w.Has(nsX))
}

// Records may come late: for a set that everybody has let go of meanwhile.
func TestLateRecords(t *testing.T) {
	w := newWorld(t)
	w.Hold(nsX, rule)
	plan := w.Plan()
	require.NoError(t, w.hns.do(plan[0]))
	w.Release(nsX, rule)
	done(w.Cache, plan[0])
	same(t, `set  delete  ns-x`, w.PlanRemovals(w.Now, nil))
	w.Removed(nsX)
	w.Removed(nsX)
	require.Empty(t, w.Snapshot())
	w.Unknown(nsX)
	require.True(t, w.HasUnknown())
}

// A listing may contradict itself when sets go while it is made.
func TestListedMemberThatIsNotListed(t *testing.T) {
	w := newWorld(t)
	w.nest(nested, rule, map[Name]netip.Addr{leafA: addr1, leafB: addr2})
	w.apply()
	whole := w.hns.list()
	torn := slices.DeleteFunc(w.hns.list(), func(o Observed) bool { return o.ID == leafB.ID() })
	w.RemoveMember(nested, leafB)
	w.Observe(torn, nil)
	w.AddMember(nested, leafB)
	w.AddAddr(leafB, addr2)
	require.Equal(t, "set  create  podlabel-app:b  10.0.0.2", planLines(w.Plan()))
	w.RemoveMember(nested, leafB)
	for i := range torn {
		torn[i].Values = slices.DeleteFunc(torn[i].Values, func(v string) bool { return v == leafB.ID() })
	}
	w.Observe(torn, nil)
	there := func() bool {
		return slices.ContainsFunc(w.Snapshot(), func(s SetState) bool { return s.Name == leafB.String() })
	}
	require.False(t, there(), "nothing is left of it")
	w.Observe(whole, nil)
	require.True(t, there())
}

// What another program calls a set, and of what type, may change between listings.
func TestOrphanChanges(t *testing.T) {
	w := newWorld(t)
	o := Observed{ID: "azure-npm-5", Name: "first", Values: []string{"10.0.0.1"}}
	w.Observe([]Observed{o}, nil)
	o.Name = "second"
	w.Observe([]Observed{o}, nil)
	same(t, `set  delete  second`, w.PlanRemovals(w.Now, nil))
	o.Nested, o.Values = true, nil
	w.Observe([]Observed{o}, nil)
	same(t, `nest delete  second`, w.PlanRemovals(w.Now, nil))
	require.Empty(t, w.PlanRemovals(w.Now, nil)[0].Sets[0].Values)
	w.Observe(nil, nil)
	require.Empty(t, w.Snapshot())
	require.Empty(t, w.byName)
}

// A leaf that leaves a nested set is right until HNS has the nested set without
// it: rules see through to it.
func TestLeafIsKeptUntilItIsGone(t *testing.T) {
	w := newWorld(t)
	w.nest(nested, rule, map[Name]netip.Addr{leafA: addr1, leafB: addr2})
	w.apply()
	w.RemoveMember(nested, leafA)
	require.True(t, w.Has(leafA), "it is fed")
	require.False(t, w.HasMember(nested, leafA))
	w.RemoveAddr(leafA, addr1)
	plan := w.Plan()
	same(t, `
		set  update  podlabel-app:a
		--
		nest update  nestedlabel-app:a:b  -> empty-emptyhashset podlabel-app:b`, plan)

	t.Run("it comes back before", func(t *testing.T) {
		require.False(t, w.AddMember(nested, leafA), "it was fed all the time")
		w.RemoveMember(nested, leafA)
	})
	w.apply()
	require.False(t, w.Has(leafA))
	same(t, `set  delete  podlabel-app:a`, w.PlanRemovals(w.Now, nil))
}

// A set that somebody unknown uses is idle from then on.
func TestUsed(t *testing.T) {
	w := newWorld(t)
	w.Hold(nsX, rule)
	w.apply()
	w.Release(nsX, rule)
	before := w.Now
	w.Now = before.Add(time.Minute)
	w.Used(nsX)
	w.Used(nsY) // not there
	require.Nil(t, w.PlanRemovals(before, nil))
	same(t, `set  delete  ns-x`, w.PlanRemovals(w.Now, nil))
}

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

// shown is a listing in which a set has other values.
func shown(w *world, n Name, values ...string) []Observed {
	list := w.hns.list()
	for i := range list {
		if list[i].ID == n.ID() {
			list[i].Values = values
		}
	}
	return list
}

func spelt(t *testing.T) *world {
	w := newWorld(t)
	w.Hold(nsX, rule)
	w.AddAddr(nsX, addr1)
	w.AddAddr(nsX, addr2)
	w.nest(nested, rule, map[Name]netip.Addr{leafA: addr1, leafB: addr2})
	w.apply()
	return w
}

// TestSpellingIsLearned: two reads in a row, the first one after a write, tell how HNS
// shows a set.
func TestSpellingIsLearned(t *testing.T) {
	upper := strings.ToUpper(leafA.ID())
	for _, tc := range []struct {
		set         Name
		values      []string
		sent, shown []string
	}{
		{nsX, []string{"010.000.000.001", "10.0.0.2"}, []string{"10.0.0.1"}, []string{"010.000.000.001"}},
		{nsX, []string{"::ffff:10.0.0.2", "::ffff:10.0.0.1"}, []string{"10.0.0.1", "10.0.0.2"}, []string{"::ffff:10.0.0.1", "::ffff:10.0.0.2"}},
		{nested, []string{upper, leafB.ID(), Empty().ID()}, []string{leafA.ID()}, []string{upper}},
	} {
		w := spelt(t)
		require.Empty(t, w.Observe(shown(w, tc.set, tc.values...), nil))
		require.True(t, w.Doubted())
		require.Nil(t, w.Plan(), "one read is not enough to write")
		require.Empty(t, w.TakeSpellings())
		slices.Reverse(tc.values)
		for range 3 {
			require.Empty(t, w.Observe(shown(w, tc.set, tc.values...), nil))
			require.False(t, w.Doubted())
			require.Nil(t, w.Plan())
			require.True(t, w.Ready(tc.set))
		}
		require.Equal(t, []Spelling{{tc.set, tc.sent, tc.shown}}, w.TakeSpellings())
		require.Empty(t, w.TakeSpellings())

		drifted := w.Observe(shown(w, tc.set, tc.values[1:]...), nil)
		require.Len(t, drifted, 1, "something else")
		require.Len(t, w.Plan(), 1)
		w.apply()
		w.Observe(shown(w, tc.set, tc.values...), nil)
		require.True(t, w.Doubted(), "it was written")
	}
}

// TestNoSpelling: what means something, what is not in place of as much, what comes
// after a read that was right, or is another one each time, is somebody's doing.
func TestNoSpelling(t *testing.T) {
	odd := "010.000.000.001"
	for title, values := range map[string][]string{
		"a block":   {"10.0.0.0/8", "10.0.0.2"},
		"a range":   {"10.0.0.1-10.0.0.9", "10.0.0.2"},
		"one more":  {odd, "10.0.0.1", "10.0.0.2"},
		"one less":  {odd},
		"another":   {odd, "10.0.0.9"},
		"a surplus": {odd, "10.0.0.2", "10.0.0.9"},
	} {
		t.Run(title, func(t *testing.T) {
			w := spelt(t)
			require.Len(t, w.Observe(shown(w, nsX, values...), nil), 1)
			require.False(t, w.Doubted())
			require.Len(t, w.Plan(), 1)
		})
	}
	t.Run("another set", func(t *testing.T) {
		w := spelt(t)
		require.Len(t, w.Observe(shown(w, nested, "azure-npm-unseen", leafB.ID(), Empty().ID()), nil), 1)
		require.Len(t, w.Plan(), 1)
	})
	t.Run("after it was right", func(t *testing.T) {
		w := spelt(t)
		require.Empty(t, w.Observe(w.hns.list(), nil))
		require.Len(t, w.Observe(shown(w, nsX, odd, "10.0.0.2"), nil), 1)
		require.Len(t, w.Plan(), 1)
	})
	t.Run("right the second time", func(t *testing.T) {
		w := spelt(t)
		w.Observe(shown(w, nsX, odd, "10.0.0.2"), nil)
		require.Empty(t, w.Observe(w.hns.list(), nil))
		require.False(t, w.Doubted())
		require.Len(t, w.Observe(shown(w, nsX, odd, "10.0.0.2"), nil), 1)
	})
	t.Run("another one each time", func(t *testing.T) {
		w := spelt(t)
		require.Empty(t, w.Observe(shown(w, nsX, odd, "10.0.0.2"), nil))
		require.Nil(t, w.Plan())
		w.Observe(shown(w, nsX, "0"+odd, "10.0.0.2"), nil)
		require.False(t, w.Doubted())
		require.Len(t, w.Plan(), 1)
	})
}
