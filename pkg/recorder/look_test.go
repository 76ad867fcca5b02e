package recorder

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
	"github.com/winnpm/winnpm/pkg/state"
)

// looker is a dataplane whose looks end as a test says.
type looker struct {
	steps
	observe func(context.Context, dataplane.Look) (*dataplane.Observation, error)
}

func (l looker) Observe(ctx context.Context, look dataplane.Look) (*dataplane.Observation, error) {
	return l.observe(ctx, look)
}

// lookWorld is a recorder with nothing behind it but HNS.
func lookWorld(t *testing.T, steps int, observe func(context.Context, hns.Client) (*dataplane.Observation, error)) (*Recorder, *hnssim.Sim, Dataplane) {
	sim := hnssim.New(hnssim.Options{Foreign: hnssim.DefaultForeign()})
	w := &world{t: t, sim: sim}
	w.endpoint("e1", "10.0.0.1")
	w.endpoint("e2", "10.0.0.2")
	rec := New(Config{Snapshot: func() func() state.Dump { return func() state.Dump { return state.Dump{} } }, Now: time.Now, MaxSteps: steps})
	client := rec.Client(sim)
	l := looker{observe: func(ctx context.Context, _ dataplane.Look) (*dataplane.Observation, error) {
		return observe(ctx, client)
	}}
	l.apply = func(context.Context) error { return nil }
	return rec, sim, rec.Dataplane(l)
}

// A look that finds nothing shows while it runs, and leaves nothing behind, however
// many there are; what it read is in memory once.
func TestLooksThatFindNothing(t *testing.T) {
	var rec *Recorder
	during := func() {}
	rec, sim, run := lookWorld(t, 4, func(ctx context.Context, c hns.Client) (*dataplane.Observation, error) {
		_, _ = c.EndpointIDs(ctx)
		_, err := c.GetEndpoint(ctx, "e1")
		during()
		return nil, err
	})
	look := dataplane.Look{Enumerate: true, Endpoints: []string{"e1"}}
	_, err := run.ApplyDataplane(t.Context(), dataplane.NewTransaction())
	require.NoError(t, err)
	before := rec.is.bytes
	during = func() {
		s := rec.Recording().Steps[1]
		require.Equal(t, []any{uint64(2), true, &look, 2}, []any{s.Number, s.Running, s.Look, len(s.Calls)})
		require.Equal(t, rec.Brief()[1].Look, s.Look)
		require.Equal(t, 2+3, s.DLLCalls)
	}
	_, err = run.Observe(t.Context(), look)
	require.NoError(t, err)
	once := rec.is.bytes
	require.Greater(t, once, before, "what was read is shared with later steps")

	during = func() {}
	for range 10 * keptBriefs {
		_, err := run.Observe(t.Context(), look)
		require.NoError(t, err)
	}
	require.Equal(t, once, rec.is.bytes)
	require.Len(t, rec.is.seen.ids, 2)
	require.Empty(t, rec.running)
	for range 5 { // a segment is not full of what it does not keep
		_, err = run.ApplyDataplane(t.Context(), dataplane.NewTransaction())
		require.NoError(t, err)
		rec.Wait()
	}
	got := rec.Recording()
	last := uint64(1 + 1 + 10*keptBriefs + 5)
	require.Equal(t, []uint64{1, last - 4, last - 3, last - 2, last - 1, last}, numbers(got.Steps))
	require.Zero(t, got.Forgotten)
	require.Nil(t, got.Start)
	require.Equal(t, numbers(got.Steps), numbers(rec.Brief()))
	require.Equal(t, 5*(1+10*keptBriefs), sim.DLLCalls())
}

// One that began before the state was taken goes from both segments.
func TestLookAcrossSegments(t *testing.T) {
	during := func() {}
	rec, _, run := lookWorld(t, 4, func(context.Context, hns.Client) (*dataplane.Observation, error) {
		during()
		return nil, nil //nolint:nilnil // nothing new
	})
	during = func() {
		for range 4 {
			_, err := run.ApplyDataplane(t.Context(), dataplane.NewTransaction())
			require.NoError(t, err)
			rec.Wait()
		}
		require.Equal(t, []uint64{1, 2, 3, 4, 5}, numbers(rec.Recording().Steps))
		require.Equal(t, []any{uint64(1), uint64(1)}, []any{rec.was.steps[0].step.Number, rec.is.steps[0].step.Number})
	}
	_, err := run.Observe(t.Context(), dataplane.Look{})
	require.NoError(t, err)
	require.Equal(t, []uint64{2, 3, 4, 5}, numbers(rec.Recording().Steps))
	require.Zero(t, rec.Recording().Forgotten)
}

// A look that fails is kept; how often it failed the same way again is a number.
func TestLooksThatFail(t *testing.T) {
	fails, found := errors.New("the first"), (*dataplane.Observation)(nil)
	rec, _, run := lookWorld(t, 4, func(context.Context, hns.Client) (*dataplane.Observation, error) { return found, fails })
	observe := func() {
		_, err := run.Observe(t.Context(), dataplane.Look{Sets: true})
		require.Equal(t, fails, err)
	}
	type kept struct {
		number uint64
		err    string
		again  int
	}
	want := func(want ...kept) {
		t.Helper()
		for _, steps := range [][]Step{rec.Recording().Steps, rec.Brief()} {
			got := make([]kept, len(steps))
			for i, s := range steps {
				got[i] = kept{s.Number, s.Error, s.Again}
			}
			require.Equal(t, want, got)
		}
	}
	for range 100 {
		observe()
	}
	want(kept{1, "the first", 99})
	fails = nil
	observe() // finds nothing
	fails = errors.New("the first")
	observe()
	want(kept{1, "the first", 100})
	fails = errors.New("the second")
	observe()
	observe()
	want(kept{1, "the first", 100}, kept{103, "the second", 1})
	fails, found = nil, &dataplane.Observation{}
	observe()
	fails, found = errors.New("the second"), nil
	observe()
	want(kept{1, "the first", 100}, kept{103, "the second", 1}, kept{105, "", 0}, kept{106, "the second", 0})
	require.Zero(t, rec.Recording().Forgotten)

	// The first one is forgotten, so another one is kept.
	for range 8 {
		_, err := run.ApplyDataplane(t.Context(), dataplane.NewTransaction())
		require.NoError(t, err)
		rec.Wait()
	}
	require.Greater(t, rec.Recording().Forgotten, uint64(4))
	observe()
	steps := rec.Recording().Steps
	require.Equal(t, []any{"the second", 0}, []any{steps[len(steps)-1].Error, steps[len(steps)-1].Again})
}

// Every call has the calls of the DLLs that it was, and the last one of a handle
// that is shared its closing; of a step they are all.
func TestDLLCalls(t *testing.T) {
	rec, sim, run := lookWorld(t, 0, func(ctx context.Context, c hns.Client) (*dataplane.Observation, error) {
		_, err := c.Network(ctx)
		_, _ = c.EndpointIDs(ctx)
		_, _ = c.GetEndpoint(ctx, "e2")
		release := c.Hold(ctx, "e1")
		_, _ = c.GetEndpoint(ctx, "e1")
		_ = c.AddACLs(ctx, "e1", nil)
		_, _ = c.GetEndpoint(ctx, "e1")
		_ = c.ModifySets(ctx, hns.Add, nil)
		release()
		unused := c.Hold(ctx, "e2")
		unused()
		return &dataplane.Observation{}, err
	})
	_, err := run.Observe(t.Context(), dataplane.Everything())
	require.NoError(t, err)
	step := rec.Recording().Steps[0]
	var got []string
	sum := 0
	for _, c := range step.Calls {
		got = append(got, fmt.Sprint(c.Op, " ", c.Endpoint, " ", c.DLLCalls))
		sum += c.DLLCalls
	}
	require.Equal(t, []string{
		"Network/Get  4", "Endpoint/Enumerate  2", "Endpoint/Get e2 3",
		"Endpoint/Get e1 2", "ACL/Add e1 1", "Endpoint/Get e1 2", "SetPolicy/Add  3",
	}, got)
	require.Equal(t, sum, step.DLLCalls)
	require.Equal(t, sim.DLLCalls(), step.DLLCalls)
	brief := rec.Brief()[0]
	require.Equal(t, step.DLLCalls, brief.DLLCalls)
	require.Equal(t, 4, brief.Calls[0].DLLCalls)
	client := rec.Client(sim)
	client.Hold(t.Context(), "e1")() // of no step
}

// What a look is asked to read is bounded in brief, and so are GUIDs.
func TestLongLooksAndGUIDs(t *testing.T) {
	s := Step{Kind: Observation, Look: &dataplane.Look{Endpoints: make([]string, 3*briefEndpoints)}}
	require.Len(t, s.brief().Look.Endpoints, briefEndpoints)
	require.Equal(t, 2*briefEndpoints, s.brief().brief().MoreEndpoints)
	require.Len(t, s.Look.Endpoints, 3*briefEndpoints)

	ids := make([]string, maxKept+1)
	for i := range ids {
		ids[i] = fmt.Sprint("e", i)
	}
	seen := newSeen(maxKept)
	var long, whole, again, less Call
	seen.keepIDs(&long, ids)
	require.Equal(t, []any{true, maxKept + 1, 0}, []any{long.Cut, long.Count, len(long.IDs)})
	require.Equal(t, DigestValues(ids), long.Digest)
	_, shared := seen.keepIDs(&whole, ids[1:])
	require.Positive(t, shared)
	_, shared = seen.keepIDs(&again, ids[1:])
	require.Zero(t, shared)
	require.Same(t, &whole.IDs[0], &again.IDs[0])
	ids[1] = "garbage"
	require.Equal(t, "e1", whole.IDs[0])
	_, shared = seen.keepIDs(&less, ids[2:])
	require.Positive(t, shared)
	require.Len(t, less.IDs, maxKept-1)
}

// What a code nobody knows, or an endpoint of somebody else, is to decisions
// is kept.
func TestClassesOfErrors(t *testing.T) {
	for _, class := range []error{hns.ErrUnlisted, hns.ErrElsewhere} {
		err := fmt.Errorf("x: %w", &hns.OpError{Op: "o", Code: 0x803b0030, Err: class})
		require.Equal(t, class.Error(), newError(err).Class)
		require.Equal(t, uint32(0x803b0030), newError(err).Code)
	}
}
