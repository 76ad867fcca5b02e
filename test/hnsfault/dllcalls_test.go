package hnsfault

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
)

// TestDLLCalls: what a call of the client costs at the DLLs.
func TestDLLCalls(t *testing.T) {
	read := func(ctx context.Context, t *testing.T, s *Sim) {
		_, err := s.GetEndpoint(ctx, "ep-1")
		require.NoError(t, err)
	}
	checkedWrite := func(ctx context.Context, t *testing.T, s *Sim) {
		read(ctx, t, s)
		require.NoError(t, s.AddACLs(ctx, "ep-1", []hns.ACL{allow(nil)}))
		read(ctx, t, s)
	}
	hold := func(do func(context.Context, *testing.T, *Sim)) func(context.Context, *testing.T, *Sim) {
		return func(ctx context.Context, t *testing.T, s *Sim) {
			release := s.Hold(ctx, "ep-1")
			do(ctx, t, s)
			release()
		}
	}
	for name, test := range map[string]struct {
		do   func(context.Context, *testing.T, *Sim)
		want int
	}{
		"a checked write":        {hold(checkedWrite), 5},
		"and without a handle":   {checkedWrite, 9},
		"a read":                 {read, 3},
		"a read with a handle":   {hold(read), 3},
		"a handle of nobody":     {hold(func(context.Context, *testing.T, *Sim) {}), 0},
		"two held, one by one":   {func(ctx context.Context, t *testing.T, s *Sim) { hold(read)(ctx, t, s); hold(read)(ctx, t, s) }, 6},
		"another than that held": {hold(func(ctx context.Context, _ *testing.T, s *Sim) { _, _ = s.GetEndpoint(ctx, "ep-new") }), 3},
		"an enumeration": {func(ctx context.Context, t *testing.T, s *Sim) {
			_, err := s.EndpointIDs(ctx)
			require.NoError(t, err)
		}, 2},
		"the network": {func(ctx context.Context, t *testing.T, s *Sim) {
			_, err := s.Network(ctx)
			require.NoError(t, err)
		}, 4},
		"sets": {func(ctx context.Context, t *testing.T, s *Sim) { require.NoError(t, update(ctx, s)) }, 3},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTown(t)
			test.do(t.Context(), t, s)
			require.Equal(t, test.want, s.DLLCalls())
			s.ResetCalls()
			require.Zero(t, s.DLLCalls())
		})
	}
}

// TestDLLCallsOfHeldCalls: the first call opens, and only then is there
// something to close.
func TestDLLCallsOfHeldCalls(t *testing.T) {
	s := newTown(t)
	release := s.Hold(t.Context(), "ep-1")
	for range 3 {
		_, err := s.GetEndpoint(t.Context(), "ep-1")
		require.NoError(t, err)
	}
	var calls []int
	for _, c := range s.Calls() {
		calls = append(calls, c.DLLCalls)
	}
	require.Equal(t, []int{2, 1, 1}, calls)
	require.Equal(t, 4, s.DLLCalls())
	require.Panics(t, func() { s.Hold(t.Context(), "ep-1") }, "held twice")
	release()
	require.Equal(t, 5, s.DLLCalls())
}
