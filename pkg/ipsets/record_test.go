package ipsets

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// An attempt that may have been done may have put any leaf into the nested set.
func TestUnknownNestedKeepsEveryLeaf(t *testing.T) {
	w := newWorld(t)
	w.nest(nested, rule, map[Name]netip.Addr{leafA: addr1})
	w.Hold(leafB, rule)
	w.apply()
	w.AddMember(nested, leafB)
	require.NoError(t, w.hns.do(w.Plan()[0])) // the reply is lost
	w.Unknown(nested)
	w.RemoveMember(nested, leafB)
	w.Release(leafB, rule)
	require.Nil(t, w.PlanRemovals(w.now, nil))

	w.Observe(w.hns.list(), nil)
	require.Nil(t, w.PlanRemovals(w.now, nil), "the nested set has it")
	w.apply()
	same(t, `set  delete  podlabel-app:b`, w.PlanRemovals(w.now, nil))
}

func TestUnknownRemoval(t *testing.T) {
	w := newWorld(t)
	w.nest(nested, rule, map[Name]netip.Addr{leafA: addr1})
	w.apply()
	w.Release(nested, rule)
	plan := w.PlanRemovals(w.now, nil)
	require.NoError(t, w.hns.do(plan[0]))
	for _, s := range plan[0].Sets {
		w.Unknown(s.Name)
	}
	require.Nil(t, w.PlanRemovals(w.now, nil))
	w.nest(nested, rule, map[Name]netip.Addr{leafA: addr1})
	require.Nil(t, w.Plan())
	w.Observe(w.hns.list(), nil)
	same(t, `nest create  nestedlabel-app:a:b  -> empty-emptyhashset podlabel-app:a`, w.Plan())
	w.apply()
}

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

	t.Run("what is lost comes back", func(t *testing.T) {
		w.Observe(nil, nil)
		w.hns.sets = map[string]hnsSet{}
		require.Len(t, w.Plan(), 2)
		w.apply()
	})
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
	t.Run("what moved since is skipped", func(t *testing.T) {
		old := w.hns.list()
		w.AddAddr(nsX, addr2)
		w.Hold(nsY, rule)
		w.apply()
		skip := func(n Name) bool { return n == nsX || n == nsY }
		w.Observe(old, skip)
		require.Nil(t, w.Plan())

		w.Release(nsY, rule)
		old = w.hns.list()
		require.NoError(t, w.hns.run(w.Cache, w.PlanRemovals(w.now, nil)))
		w.Observe(old, skip)
		require.False(t, w.Has(nsY))
		require.Nil(t, w.PlanRemovals(w.now, nil), "it is not taken for an orphan")
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

	plan := w.PlanRemovals(w.now, nil)
	same(t, `
		nest delete  old list
		--
		set  delete  ns-x
		set  delete  podlabel-app:a`, plan)
	require.Equal(t, "azure-npm-123", plan[1].Sets[1].ID)
	require.Equal(t, []string{"10.0.0.7"}, plan[1].Sets[1].Values)
	require.NoError(t, w.hns.run(w.Cache, plan))
	require.Nil(t, w.PlanRemovals(w.now, nil))
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
	same(t, `set  delete  ns-x`, w.PlanRemovals(w.now, nil))
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
	same(t, `set  delete  second`, w.PlanRemovals(w.now, nil))
	o.Nested, o.Values = true, nil
	w.Observe([]Observed{o}, nil)
	same(t, `nest delete  second`, w.PlanRemovals(w.now, nil))
	require.Empty(t, w.PlanRemovals(w.now, nil)[0].Sets[0].Values)
	w.Observe(nil, nil)
	require.Empty(t, w.Snapshot())
	require.Empty(t, w.byName)
}
