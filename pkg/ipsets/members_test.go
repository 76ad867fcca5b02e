package ipsets

import (
	"maps"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// trackerModel is a tracker in the plainest words.
type trackerModel struct {
	want, omit, have map[int]bool
}

// without counts the members of a that b lacks.
func without(a, b map[int]bool) (n int) {
	for k := range a {
		n += count(!b[k])
	}
	return n
}

func keysOf(m map[int]bool) []int {
	return slices.Sorted(maps.Keys(m))
}

func TestTrackerModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := tracker[int]{counts: &counts{}}
		m := trackerModel{want: map[int]bool{}, omit: map[int]bool{}, have: map[int]bool{}}
		key := rapid.IntRange(0, 7)
		t.Repeat(map[string]func(*rapid.T){
			"desire": func(t *rapid.T) {
				k := key.Draw(t, "key")
				require.Equal(t, !m.want[k], tr.setDesired(k, desired))
				m.want[k] = true
				delete(m.omit, k)
			},
			"omit": func(t *rapid.T) {
				k := key.Draw(t, "key")
				require.Equal(t, m.want[k], tr.setDesired(k, omitted))
				m.omit[k] = true
				delete(m.want, k)
			},
			"neither": func(t *rapid.T) {
				k := key.Draw(t, "key")
				require.Equal(t, m.want[k], tr.setDesired(k, 0))
				delete(m.want, k)
				delete(m.omit, k)
			},
			"clear": func(*rapid.T) {
				tr.clearDesired()
				clear(m.want)
				clear(m.omit)
			},
			"actual": func(t *rapid.T) {
				keys := rapid.SliceOf(key).Draw(t, "keys") // with repetitions
				came, went := tr.setActual(keys)
				have := map[int]bool{}
				for _, k := range keys {
					have[k] = true
				}
				for _, k := range came {
					require.True(t, have[k] && !m.have[k], "%d came", k)
				}
				for _, k := range went {
					require.True(t, !have[k] && m.have[k], "%d went", k)
				}
				common := 0
				for k := range have {
					common += count(m.have[k])
				}
				require.Len(t, came, len(have)-common)
				require.Len(t, went, len(m.have)-common)
				m.have = have
			},
			"": func(t *rapid.T) {
				require.Empty(t, gocmp.Diff(keysOf(m.want), slices.Sorted(tr.all(desired))))
				require.Empty(t, gocmp.Diff(keysOf(m.have), slices.Sorted(tr.all(actual))))
				require.Equal(t, len(m.want), tr.desires)
				require.Equal(t, len(m.omit), tr.omits)
				require.Equal(t, without(m.want, m.have), tr.missing)
				require.Equal(t, without(m.have, m.want), tr.surplus)
				for k, b := range tr.bits {
					require.NotZero(t, b, "a member %d without bits is kept", k)
					require.Zero(t, b&listed, "a scratch mark stays on %d", k)
				}
			},
		})
	})
}

func TestTrackerIterationStops(t *testing.T) {
	tr := tracker[int]{counts: &counts{}}
	for k := range 5 {
		tr.setDesired(k, desired)
	}
	n := 0
	for range tr.all(desired) {
		n++
		break
	}
	require.Equal(t, 1, n)
}

func TestTrackerMayChangeWhileIterated(t *testing.T) {
	tr := tracker[int]{counts: &counts{}}
	for k := range 100 {
		tr.setDesired(k, desired)
	}
	for k := range tr.all(desired) {
		tr.setDesired(k, 0)
		tr.setDesired((k+1)%100, 0)
	}
	require.Zero(t, tr.desires)
	require.Empty(t, tr.bits)
}
