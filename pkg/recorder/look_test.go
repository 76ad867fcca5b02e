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
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// looker is a dataplane whose looks end as a test says.
type looker struct {
	steps
	observe func(context.Context, dataplane.Look) (bool, error)
}

func (l looker) Observe(ctx context.Context, look dataplane.Look) (bool, error) {
	return l.observe(ctx, look)
}

// lookWorld is a recorder with nothing behind it but HNS.
func lookWorld(t *testing.T, maxBytes int, observe func(context.Context, hns.Client) (bool, error)) (*Recorder, Dataplane) {
	sim := hnsfault.New(hnsfault.Options{Foreign: hnssim.DefaultForeign()})
	w := &world{t: t, sim: sim}
	w.endpoint("e1", "10.0.0.1")
	w.endpoint("e2", "10.0.0.2")
	rec := New(Config{Now: time.Now, MaxBytes: maxBytes})
	client := rec.Client(sim)
	l := looker{observe: func(ctx context.Context, _ dataplane.Look) (bool, error) {
		return observe(ctx, client)
	}}
	l.apply = func(context.Context) error { return nil }
	return rec, rec.Dataplane(l)
}

// A look that finds nothing shows while it runs, and leaves nothing behind, however
// many there are.
func TestLooksThatFindNothing(t *testing.T) {
	var rec *Recorder
	during := func() {}
	rec, run := lookWorld(t, 0, func(ctx context.Context, c hns.Client) (bool, error) {
		_, _ = c.EndpointIDs(ctx)
		_, err := c.GetEndpoint(ctx, "e1")
		during()
		return false, err
	})
	look := dataplane.Look{Enumerate: true, Endpoints: []string{"e1"}}
	_, err := run.ApplyDataplane(t.Context(), dataplane.NewTransaction())
	require.NoError(t, err)
	before := rec.bytes
	during = func() {
		_, steps := recording(t, rec)
		s := steps[1]
		require.Equal(t, []any{uint64(2), true, &look, 2}, []any{s.Number, s.Running, s.Look, len(s.Calls)})
	}
	_, err = run.Observe(t.Context(), look)
	require.NoError(t, err)
	during = func() {}
	for range 1000 {
		_, err := run.Observe(t.Context(), look)
		require.NoError(t, err)
	}
	require.Equal(t, before, rec.bytes)
	require.Empty(t, rec.running)
	_, err = run.ApplyDataplane(t.Context(), dataplane.NewTransaction())
	require.NoError(t, err)
	head, steps := recording(t, rec)
	require.Equal(t, []uint64{1, 1003}, []uint64{steps[0].Number, steps[1].Number})
	require.Len(t, steps, 2)
	require.Zero(t, head.Forgotten)
}

// A look that fails is kept, unless it fails like the one before.
func TestLooksThatFail(t *testing.T) {
	fails, found := errors.New("the first"), false
	rec, run := lookWorld(t, 0, func(context.Context, hns.Client) (bool, error) { return found, fails })
	observe := func(times int, finds bool, err error) {
		found, fails = finds, err
		for range times {
			_, err := run.Observe(t.Context(), dataplane.Look{Sets: true})
			require.Equal(t, fails, err)
		}
	}
	first, second := errors.New("the first"), errors.New("the second")
	observe(100, false, first)
	observe(1, false, nil)
	observe(1, false, first)
	observe(2, false, second)
	observe(1, true, nil)
	observe(1, false, second)
	_, steps := recording(t, rec)
	got := map[uint64]string{}
	for _, s := range steps {
		got[s.Number] = s.Error
	}
	require.Equal(t, map[uint64]string{1: "the first", 103: "the second", 105: "", 106: "the second"}, got)
}

// The endpoints that a look reads are bounded.
func TestLongLooks(t *testing.T) {
	look := dataplane.Look{Endpoints: make([]string, 3*maxEndpoints)}
	s := lookStep(look)
	require.Len(t, s.Look.Endpoints, maxEndpoints)
	require.Equal(t, 2*maxEndpoints, s.MoreEndpoints)
	require.Len(t, look.Endpoints, 3*maxEndpoints)
}

// What a code nobody knows, or an endpoint of somebody else, is to decisions
// is kept.
func TestClassesOfErrors(t *testing.T) {
	for _, class := range []error{hns.ErrUnlisted, hns.ErrElsewhere} {
		err := fmt.Errorf("x: %w", &hns.OpError{Op: "o", Code: 0x803b0030, Err: class})
		require.Contains(t, newError(err).Message, class.Error())
		require.Equal(t, uint32(0x803b0030), newError(err).Code)
	}
}
