package ipsets

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
	same(t, `set  delete  podlabel-app:a`, w.PlanRemovals(w.now, nil))
}

// Nobody sees through a nested set that no rule names.
func TestLeafOfAnUnneededSetIsNotKept(t *testing.T) {
	for name, change := range map[string]func(*world){
		"it leaves":          func(w *world) { w.Release(nested, rule); w.RemoveMember(nested, leafA) },
		"the rule goes then": func(w *world) { w.RemoveMember(nested, leafA); w.Release(nested, rule) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.Hold(nested, selector)
			w.nest(nested, rule, map[Name]netip.Addr{leafA: addr1})
			w.apply()
			change(w)
			require.False(t, w.Has(leafA))
			require.True(t, w.Has(nested))
			require.Nil(t, w.Plan())
		})
	}
}

// A set that somebody unknown uses is idle from then on.
func TestUsed(t *testing.T) {
	w := newWorld(t)
	w.Hold(nsX, rule)
	w.apply()
	w.Release(nsX, rule)
	before := w.now
	w.Advance(before.Add(time.Minute))
	w.Used(nsX)
	w.Used(nsY) // not there
	require.Nil(t, w.PlanRemovals(before, nil))
	same(t, `set  delete  ns-x`, w.PlanRemovals(w.now, nil))
}
