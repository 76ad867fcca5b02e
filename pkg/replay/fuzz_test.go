package replay_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns/hnssim"
	"github.com/winnpm/winnpm/pkg/recorder"
	"github.com/winnpm/winnpm/pkg/replay"
	"github.com/winnpm/winnpm/pkg/state"
)

// FuzzReplay: whatever can be read as a recording ends, and ends in a result or
// in an ErrRecording. The seeds are recordings in testdata; see TestSeeds.
func FuzzReplay(f *testing.F) {
	seeds, err := filepath.Glob("testdata/*.json")
	require.NoError(f, err)
	require.NotEmpty(f, seeds)
	for _, name := range seeds {
		text, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		rec, err := recorder.Decode(bytes.NewReader(text))
		if err != nil {
			return
		}
		d := state.Dump{Node: rec.Node}
		result, err := replay.Replay(t.Context(), rec, replay.Options{Dump: &d, Detail: 2})
		if err != nil {
			require.ErrorIs(t, err, replay.ErrRecording)
			return
		}
		require.NoError(t, result.WriteText(io.Discard, replay.View{Verbose: true}))
		require.NoError(t, result.WriteJSON(io.Discard, replay.View{}))
	})
}

// TestSeeds writes, with -update, what FuzzReplay begins with: a recording from
// the start of a process, and one from a dump, with troubles in both.
func TestSeeds(t *testing.T) {
	for name, steps := range map[string]int{"start.json": 0, "dump.json": 3} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, steps)
			s.begin()
			s.sim.Inject(hnssim.Fault{Op: "ACL/Add", Mode: hnssim.LoseReply})
			s.apply(pod("other", "10.0.0.3", "api"), allow("more", "job"))
			s.reconcile()
			s.sim.Restart(true)
			s.reconcile()
			s.apply(forget("web"))
			s.apply(pod("other", "10.0.0.4", "api"))
			var text bytes.Buffer
			require.NoError(t, recorder.Encode(&text, s.rec.Recording()))
			golden(t, name, text.String())
		})
	}
}
