package dataplane_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/recorder"
	"github.com/winnpm/winnpm/pkg/replay"
	"github.com/winnpm/winnpm/pkg/state"
)

// TestRandomReplay: a random history that was recorded plays to its end as it
// was. What parts is what was done to it: every call that HNS failed, and nothing
// else; where somebody else changed what is ours, that as well.
func TestRandomReplay(t *testing.T) {
	rounds(t, func(t *testing.T, rt *rapid.T, first *string) {
		w := newWalker(rt, t.Context(), dataplane.Config{
			MaxBatchedACLs: rapid.SampledFrom([]int{30, 2}).Draw(rt, "batch"),
			MaxRepairs:     rapid.SampledFrom([]int{0, 1}).Draw(rt, "repairs"),
			Unchecked:      rapid.Bool().Draw(rt, "unchecked"),
			GracePeriod:    rapid.SampledFrom([]time.Duration{0, 10 * time.Second}).Draw(rt, "grace"),
		}, walkSim(), newCluster())
		w.first = first
		w.hasty = rapid.Bool().Draw(rt, "hasty")
		w.faulty = rapid.Bool().Draw(rt, "faults")
		w.rejecting = rapid.Bool().Draw(rt, "rejections")
		tampering := rapid.Bool().Draw(rt, "foreign hands")
		w.record(rapid.SampledFrom([]int{0, 4}).Draw(rt, "steps"))
		actions := w.actions()
		for name, on := range map[string]bool{
			"process": false, "fault": w.faulty, "come and go": w.faulty, "reject": w.rejecting, "tamper": tampering,
		} {
			if !on {
				delete(actions, name)
			}
		}
		var last *dataplane.Observation // no other one ever comes in
		actions["look"] = func(*rapid.T) { last = w.observe() }
		actions["fold"] = func(t *rapid.T) {
			tx := dataplane.NewTransaction()
			if last != nil {
				tx.SetObservation(last)
				last = nil
			}
			for range rapid.IntRange(0, 2).Draw(t, "objects") {
				w.event(t, tx)
			}
			w.apply(tx)
		}
		rt.Repeat(actions)
		w.play()
	})
}

// record has a new dataplane that is recorded, from its start.
func (w *walker) record(steps int) {
	w.recorder = recorder.New(recorder.Config{
		Snapshot: func() func() state.Dump { return w.dp.Snapshot().Dump }, Settings: recorder.NewSettings("azure", w.cfg),
		Node: "n1", Agent: "test", Now: w.cfg.Now, MaxSteps: steps,
	})
	w.cfg.Client = w.recorder.Client(w.sim)
	w.dp = dataplane.New(w.cfg)
}

// play replays what was recorded.
func (w *walker) play() {
	var text bytes.Buffer
	require.NoError(w.t, recorder.Encode(&text, w.recorder.Recording()))
	rec, err := recorder.Decode(&text)
	require.NoError(w.t, err)
	dump := w.dp.Dump()
	result, err := replay.Replay(w.ctx, rec, replay.Options{Dump: &dump})
	require.NoError(w.t, err)

	type place struct {
		step uint64
		call int
	}
	// What is refused because of an endpoint that is not attached parts or not,
	// whether a listing had shown that.
	detached := func(text string) bool {
		return strings.Contains(text, "not attached") || strings.Contains(text, "in use")
	}
	// Nor is a write of sets judged after an observation that the recording lacks, until
	// another one comes in.
	notHandedIn, nothingNew := map[uint64]bool{}, map[uint64]bool{}
	for _, s := range result.Steps {
		for _, f := range s.Findings {
			notHandedIn[s.Number] = notHandedIn[s.Number] || strings.Contains(f.Text, "is not handed in")
			nothingNew[s.Number] = nothingNew[s.Number] || strings.Contains(f.Text, "finds nothing new")
		}
	}
	blind := false
	unjudged := map[place]bool{}
	var failed, differ []place
	for _, s := range rec.Steps {
		if s.Observed != 0 && !nothingNew[s.Number] {
			blind = notHandedIn[s.Number]
		}
		for i, c := range s.Calls {
			at := place{s.Number, i + 1}
			if unjudged[at] = blind && strings.HasPrefix(c.Op, "SetPolicy/"); unjudged[at] {
				continue
			}
			if c.Error != nil && (c.Error.Class != hns.ErrNotFound.Error() || c.Error.Kind != hns.KindEndpoint) && !detached(c.Error.Message) {
				failed = append(failed, at)
			}
		}
	}
	findings := slices.Clone(result.Final)
	for _, s := range result.Steps {
		for _, f := range s.Findings {
			if at := (place{s.Number, f.Call}); f.Kind == replay.Answer && !detached(f.Text) && !unjudged[at] {
				differ = append(differ, at)
			}
		}
		findings = append(findings, s.Findings...)
	}
	for _, f := range findings {
		if f.Kind == replay.Build || f.Kind == replay.Outcome || f.Kind == replay.State && !w.tampered {
			w.failPlay(result, rec, "%s", f.Text)
		}
	}
	if diff := cmp.Diff(failed, differ, cmp.AllowUnexported(place{})); diff != "" && !w.tampered {
		w.failPlay(result, rec, "calls that failed, and differ (-failed +differ):\n%s", diff)
	}
	again, err := replay.Replay(w.ctx, rec, replay.Options{Dump: &dump})
	require.NoError(w.t, err)
	require.Equal(w.t, result, again, "the same recording gives the same result")
}

func (w *walker) failPlay(result *replay.Result, rec recorder.Recording, format string, args ...any) {
	var b bytes.Buffer
	require.NoError(w.t, result.WriteText(&b, replay.View{Verbose: true}))
	if err := recorder.Encode(&b, rec); err != nil {
		require.NoError(w.t, errors.Join(err))
	}
	w.fail("%s\n%s", fmt.Sprintf(format, args...), b.String())
}
