package replay_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/recorder"
	"github.com/winnpm/winnpm/pkg/replay"
	"github.com/winnpm/winnpm/pkg/state"
)

// TestOlder: a recording of format 1, which an older build made, is read and told,
// with what HNS had and answered. What this build would do is not in it.
func TestOlder(t *testing.T) {
	for _, name := range []string{"old-start", "old-dump"} {
		t.Run(name, func(t *testing.T) {
			file, err := os.ReadFile("testdata/" + name + ".json")
			require.NoError(t, err)
			rec, err := recorder.Decode(bytes.NewReader(file))
			require.NoError(t, err)
			require.Equal(t, 1, rec.Format)
			result, err := replay.Replay(t.Context(), rec, replay.Options{Dump: &state.Dump{Node: "another"}, Detail: 5})
			require.NoError(t, err)
			require.True(t, result.Older)
			require.Empty(t, result.Final)
			require.Empty(t, result.Stopped)
			found := map[replay.Kind]int{}
			for _, s := range result.Steps {
				for _, f := range s.Findings {
					found[f.Kind]++
				}
			}
			require.Zero(t, found[replay.Build]+found[replay.Outcome])
			require.Positive(t, found[replay.State], "the service lost everything")
			var text bytes.Buffer
			require.NoError(t, result.WriteText(&text, replay.View{}))
			golden(t, name+".txt", text.String())
		})
	}
}
