package effort

import (
	"flag"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLevels(t *testing.T) {
	for text, want := range map[string]Level{"": Quick, "quick": Quick, "deep": Deep, "full": Full} {
		t.Setenv(Variable, text)
		require.Equal(t, want, Now(), text)
		n := Of(1, 2, 3)
		switch {
		case want == Quick:
			require.Equal(t, 1, n)
		case Raced():
			require.Equal(t, 2, n)
		default:
			require.Equal(t, 3, n)
		}
		require.Equal(t, n == 3, All())
	}
	t.Setenv(Variable, "Deep")
	require.PanicsWithError(t, `WINNPM_EFFORT="Deep": write quick, deep or full`, func() { Now() })
}

// What the command line says counts, and a flag is afterwards what it was.
func TestFlag(t *testing.T) {
	draws := flag.Int("effort.draws", 100, "for TestFlag alone")
	restore := Flag("effort.draws", "7")
	require.Equal(t, 7, *draws)
	within := Flag("effort.draws", "9")
	require.Equal(t, 7, *draws, "whoever was first said it")
	within()
	require.Equal(t, 7, *draws)
	restore()
	require.Equal(t, 100, *draws)
	require.Panics(t, func() { Flag("effort.none", "1") })
	require.Panics(t, func() { Flag("effort.draws", "many") })
}
