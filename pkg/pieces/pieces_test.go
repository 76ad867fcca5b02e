package pieces_test

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/pieces"
)

// A copy is the map as it was when the copy began, whatever happens between two
// pieces, and no piece is larger than it may be.
func TestCopy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := map[int]int{}
		for i := range rapid.IntRange(0, 60).Draw(t, "size") {
			m[i] = i
		}
		var copies pieces.Copies[int, int]
		set := func(k, v int) { copies.Before(k); m[k] = v }
		key := rapid.IntRange(0, 80)
		change := func() {
			for range rapid.IntRange(0, 20).Draw(t, "changes") {
				switch k := key.Draw(t, "key"); rapid.IntRange(0, 9).Draw(t, "what") {
				case 0:
					for k := range m {
						copies.Before(k)
						delete(m, k)
					}
				case 1:
					for i := range 50 {
						set(i, -i)
					}
				case 2, 3, 4:
					copies.Before(k)
					delete(m, k)
				default:
					set(k, -k)
				}
			}
		}

		want := maps.Clone(m)
		p, other := copies.Begin(m), copies.Begin(m)
		change()
		p.Walk(pieces.Pace{Size: rapid.IntRange(1, 20).Draw(t, "piece"), Pause: func(work func()) {
			work()
			change()
		}})
		change()
		other.Walk(pieces.AtOnce())
		require.Equal(t, want, maps.Collect(other.All()))
		require.Equal(t, want, maps.Collect(p.All()))
		require.LessOrEqual(t, len(want), p.Cap())
		seen := map[int]bool{}
		for k := range p.All() {
			require.False(t, seen[k], "twice")
			seen[k] = true
		}
	})
}

func TestBuffer(t *testing.T) {
	var sizes []int
	b := pieces.NewBuffer(pieces.Pace{Size: 8, Pause: func(work func()) { work() }}, func(piece []int) { sizes = append(sizes, len(piece)) })
	for i := range 17 {
		b.Add(i)
	}
	for range 8 {
		b.Look()
	}
	b.Flush()
	require.Equal(t, []int{8, 8, 1, 0}, sizes)
}
