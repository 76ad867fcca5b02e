package effort

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSome: so many cases, each once, the same for one seed, and over the seeds all of them.
func TestSome(t *testing.T) {
	all := map[string]int{"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}
	require.Equal(t, all, Some(t, 5, all))
	ever := map[string]int{}
	for seed := range 40 {
		t.Setenv(SeedVariable, fmt.Sprint(seed))
		some := Some(t, 2, all)
		require.Len(t, some, 2)
		require.Equal(t, some, Some(t, 2, all))
		for name, is := range some {
			require.Equal(t, all[name], is)
			ever[name] = is
		}
	}
	require.Equal(t, all, ever)

	restore := Flag("test.run", "TestSome/b") // whoever asks for one case finds it
	defer restore()
	require.Equal(t, all, Some(t, 2, all))
}
