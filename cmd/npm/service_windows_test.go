package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows/svc"
)

// serve runs Execute and returns its two channels and what it returned.
func serve(t *testing.T, program func(context.Context) int) (chan<- svc.ChangeRequest, <-chan svc.Status, <-chan uint32) {
	t.Helper()
	requests, status, code := make(chan svc.ChangeRequest), make(chan svc.Status), make(chan uint32, 1)
	go func() {
		m := &managed{ctx: t.Context(), program: program}
		_, c := m.Execute(nil, requests, status)
		code <- c
	}()
	return requests, status, code
}

func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(30 * time.Second):
		require.Fail(t, "nothing came")
		panic("unreachable")
	}
}

func TestServiceStops(t *testing.T) {
	for _, cmd := range []svc.Cmd{svc.Stop, svc.Shutdown} {
		requests, status, code := serve(t, func(ctx context.Context) int {
			<-ctx.Done()
			return 0
		})
		running := receive(t, status)
		require.Equal(t, svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown}, running)
		requests <- svc.ChangeRequest{Cmd: svc.Interrogate, CurrentStatus: running}
		require.Equal(t, running, receive(t, status))
		requests <- svc.ChangeRequest{Cmd: cmd, CurrentStatus: running}
		require.Equal(t, svc.StopPending, receive(t, status).State)
		require.Zero(t, receive(t, code))
	}
}

// The manager restarts a service that failed by its code.
func TestServiceFails(t *testing.T) {
	_, status, code := serve(t, func(context.Context) int { return 1 })
	require.Equal(t, svc.Running, receive(t, status).State)
	require.EqualValues(t, 1, receive(t, code))
}
