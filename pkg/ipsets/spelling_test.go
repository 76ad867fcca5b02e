package ipsets

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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
