// Package torture plays scenarios and disturbs them at every call of HNS: an
// error, a lost reply, a killed process, somebody else's hand. After each single
// write every packet is asked about (I4), and in the end the node is as if
// nothing had happened.
package torture

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
)

// scenarios reads testdata.
func scenarios(t *testing.T) []*scenario {
	files, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	var out []*scenario
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		require.NoError(t, err)
		for _, f := range archive.Files {
			sc, err := parse(f.Name, string(f.Data))
			require.NoError(t, err)
			out = append(out, sc)
		}
	}
	require.Greater(t, len(out), 20)
	return out
}

// TestEveryCall disturbs every scenario at every call in every way. In a short
// budget the next step either waits for the retries or does not, by turns.
func TestEveryCall(t *testing.T) {
	t.Parallel()
	for _, sc := range scenarios(t) {
		t.Run(testName(sc.name), func(t *testing.T) {
			t.Parallel()
			undisturbed := newReplay(t, sc, nil)
			want := undisturbed.run()
			all := undisturbed.disturbances(full())
			for i := range all {
				r := newReplay(t, sc, &all[i])
				r.sameAs(want, r.run())
			}
			t.Logf("%d calls, %d replays", undisturbed.played, len(all))
		})
	}
}

func testName(scenario string) string { return strings.ReplaceAll(scenario, " ", "_") }

// full reports whether everything is to be played, however long it takes.
func full() bool { return os.Getenv("TORTURE") == "full" }

// seeds is how many shuffles of a scenario are played.
func seeds() uint64 {
	if full() {
		return 300
	}
	return 5
}
