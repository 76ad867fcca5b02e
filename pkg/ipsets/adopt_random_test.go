package ipsets

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestAdoptRandom: whatever ids are found for the names in use, in any order of
// events, each entry is found by its name and by its id, an id is that of one
// set, and the sets that are known to be there are those of the last listing.
func TestAdoptRandom(t *testing.T) {
	names := []Name{nsX, leafA, leafB, nested, Empty()}
	holders := []Ref{rule, onEP, selector}
	rapid.Check(t, func(t *rapid.T) {
		c := NewCache()
		held := map[Name]map[Ref]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"hold": func(t *rapid.T) {
				n, r := rapid.SampledFrom(names).Draw(t, "name"), rapid.SampledFrom(holders).Draw(t, "ref")
				c.Hold(n, r)
				if held[n] == nil {
					held[n] = map[Ref]bool{}
				}
				held[n][r] = true
				if n == nested && c.Has(nested) {
					c.AddMember(nested, rapid.SampledFrom([]Name{leafA, leafB, nsX}).Draw(t, "member"))
				}
			},
			"release": func(t *rapid.T) {
				n, r := rapid.SampledFrom(names).Draw(t, "name"), rapid.SampledFrom(holders).Draw(t, "ref")
				if held[n][r] {
					c.Release(n, r)
					delete(held[n], r)
				}
			},
			"reject": func(t *rapid.T) { c.Reject(rapid.SampledFrom(names).Draw(t, "name")) },
			"forget outcome": func(t *rapid.T) {
				c.Unknown(rapid.SampledFrom(names).Draw(t, "name"))
			},
			"observe": func(t *rapid.T) {
				var reality []Observed
				for _, n := range names {
					ids := []string{"", n.ID(), idPrefix + "odd-" + n.Text()}
					if id := rapid.SampledFrom(ids).Draw(t, "id"); id != "" {
						other := rapid.SampledFrom([]bool{false, false, true}).Draw(t, "other type")
						reality = append(reality, Observed{ID: id, Name: n.String(), Nested: n.Nested() != other})
					}
				}
				c.Observe(reality, nil)
				var ids, known []string
				for _, o := range reality {
					ids = append(ids, o.ID)
				}
				for _, p := range c.Programmed() {
					known = append(known, p.ID)
				}
				require.ElementsMatch(t, ids, known)
			},
			"": func(t *rapid.T) {
				require.Len(t, c.byName, len(c.byID))
				for id, s := range c.byID {
					require.Equal(t, id, s.id)
					require.Same(t, s, c.byName[s.name])
				}
				c.Plan()
				c.PlanRemovals(c.now, nil)
			},
		})
	})
}
