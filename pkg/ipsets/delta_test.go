package ipsets

import (
	"cmp"
	"maps"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// trackerModel is a tracker in the plainest words.
type trackerModel struct {
	want, have map[int]bool
	refused    map[int]bool // nil: nothing
}

func (m *trackerModel) differs() int {
	n := 0
	for k := range 8 {
		n += count(m.want[k] != m.have[k])
	}
	return n
}

func keysOf(m map[int]bool) []int {
	return slices.Sorted(maps.Keys(m))
}

func TestTrackerModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tr tracker[int]
		m := trackerModel{want: map[int]bool{}, have: map[int]bool{}}
		key := rapid.IntRange(0, 7)
		t.Repeat(map[string]func(*rapid.T){
			"want": func(t *rapid.T) {
				k := key.Draw(t, "key")
				require.Equal(t, !m.want[k], tr.want(k, true))
				m.want[k] = true
			},
			"unwant one": func(t *rapid.T) {
				k := key.Draw(t, "key")
				require.Equal(t, m.want[k], tr.want(k, false))
				delete(m.want, k)
			},
			"unwant all": func(*rapid.T) {
				tr.unwant()
				clear(m.want)
				m.refused = nil
			},
			"reach": func(t *rapid.T) {
				keys := rapid.SliceOf(key).Draw(t, "keys") // with repetitions
				came, went := tr.reach(keys)
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
			"refuse": func(*rapid.T) {
				tr.refuse()
				m.refused = maps.Clone(m.want)
			},
			"": func(t *rapid.T) {
				require.Empty(t, gocmp.Diff(keysOf(m.want), tr.sorted(wanted, cmp.Compare[int])))
				require.Empty(t, gocmp.Diff(keysOf(m.have), tr.sorted(applied, cmp.Compare[int])))
				require.Equal(t, len(m.want), tr.wants)
				require.Equal(t, m.differs(), tr.differs)
				require.Equal(t, m.refused != nil && maps.Equal(m.refused, m.want), tr.rejected())
				for k, b := range tr.bits {
					require.NotZero(t, b, "a key %d without bits is kept", k)
					require.Zero(t, b&seen, "a scratch mark stays on %d", k)
					require.True(t, b&refused == 0 || tr.refusal, "%d was refused, nothing was", k)
				}
			},
		})
	})
}

func TestTrackerIterationStops(t *testing.T) {
	var tr tracker[int]
	for k := range 5 {
		tr.want(k, true)
	}
	n := 0
	for range tr.all(wanted) {
		n++
		break
	}
	require.Equal(t, 1, n)
}

func TestTrackerMayChangeWhileIterated(t *testing.T) {
	var tr tracker[int]
	for k := range 100 {
		tr.want(k, true)
	}
	for k := range tr.all(wanted) {
		tr.want(k, false)
		tr.want((k+1)%100, false)
	}
	require.Zero(t, tr.wants)
	require.Empty(t, tr.bits)
}
