package effort

import (
	"flag"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLevels(t *testing.T) {
	for text, deep := range map[string]bool{"": false, "deep": true, "full": true} {
		t.Setenv(Variable, text)
		require.Equal(t, deep, Deep(), text)
		require.Equal(t, text == "full", Full(), text)
		require.Equal(t, deep, Of(1, 2) == 2, text)
	}
	t.Setenv(Variable, "Deep")
	require.PanicsWithError(t, `WINNPM_EFFORT="Deep": write deep or full, or nothing`, func() { Of(1, 2) })
}

// What the command line says counts, and a flag is afterwards what it was.
func TestFlag(t *testing.T) {
	draws := flag.Int("effort.draws", 100, "for TestFlag alone")
	t.Run("while a test runs", func(t *testing.T) {
		Flag(t, "effort.draws", "7")
		require.Equal(t, 7, *draws)
		Flag(t, "effort.draws", "9")
		require.Equal(t, 7, *draws, "whoever was first said it")
	})
	require.Equal(t, 100, *draws)
	require.Panics(t, func() { Flag(t, "effort.none", "1") })
	require.Panics(t, func() { Flag(t, "effort.draws", "many") })
}

func TestMemory(t *testing.T) {
	const size = 8 << 20
	live, allocated := Live(), Allocated()
	kept := make([]byte, size)
	require.InDelta(t, size, Live()-live, size/4, "live while it is needed")
	require.GreaterOrEqual(t, Allocated()-allocated, uint64(size))
	runtime.KeepAlive(kept)
	require.InDelta(t, 0, Live()-live, size/4, "and not after that")
	require.GreaterOrEqual(t, Allocated()-allocated, uint64(size), "it stays allocated")
}
