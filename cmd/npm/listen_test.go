package main

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/cli"
	"github.com/winnpm/winnpm/tool/hnssim"
)

var errTaken = &net.OpError{Op: "listen", Net: "tcp", Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}

// A taken address is tried again less and less often, for as long as it takes,
// and the log says once that it is taken and who has it.
func TestListenerTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		logger, err := cli.NewLogger(&log, "info")
		require.NoError(t, err)
		began, tries, served := time.Now(), 0, 0
		free, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		d := &listener{
			what: "HTTP endpoint", address: "0.0.0.0:10091", keys: "--listen", logger: logger,
			host: host{
				listen: func(context.Context, string) (net.Listener, error) {
					if tries++; time.Since(began) < time.Hour {
						return nil, errTaken
					}
					return free, nil
				},
			},
			opened: func(string) {},
			serve: func(l net.Listener) error {
				served++
				return l.Close()
			},
		}
		require.NoError(t, d.open(t.Context()))
		require.NoError(t, d.run(t.Context()))
		require.Equal(t, 1, served)
		require.LessOrEqual(t, tries, 6+int(time.Hour/lastRetry))
		require.LessOrEqual(t, time.Since(began), time.Hour+lastRetry)
		require.Equal(t, 1, strings.Count(log.String(), `"level":"warn"`), log.String())
	})
}

// The wait ends with the program, and an address that is none is an error.
func TestListenerWithoutAnAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		fails := error(errTaken)
		d := &listener{what: "HTTP endpoint", keys: "--listen", host: host{
			listen: func(context.Context, string) (net.Listener, error) { return nil, fails },
		}}
		require.NoError(t, d.open(ctx))
		require.NoError(t, d.run(ctx))
		require.Error(t, ctx.Err())
		require.NoError(t, d.close())
		fails = errors.New("no address")
		require.EqualError(t, d.open(t.Context()), "HTTP endpoint: no address; another address goes into --listen")
		require.EqualError(t, d.run(t.Context()), "HTTP endpoint: no address; another address goes into --listen")
	})
}

// TestStartWithTakenPorts: while another process has the agent's ports, the agent programs the
// node, reports the system's error, and answers as soon as the ports are free.
func TestStartWithTakenPorts(t *testing.T) {
	squat := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() }) // it may be closed
		return l
	}
	first, second := squat(), squat()
	fake := newFake()
	require.NoError(t, fake.CreateEndpoint(hnssim.NewEndpoint{ID: "e1", Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}))
	const policies = `[{"metadata":{"namespace":"x","name":"deny","uid":"u6"},"spec":{"podSelector":{}}}]`
	s := launch(t, fake, `{}`, "--kubeconfig", serveAPI(t, policies, make(chan string, 10)),
		"--listen", first.Addr().String(), "--listen-probes", second.Addr().String())
	taken := map[any]any{}
	for range 2 {
		said := s.log("cannot listen, working without it and trying again")
		require.Contains(t, said["err"], "address already in use")
		taken[said["endpoint"]] = said["address"]
	}
	require.Equal(t, map[any]any{"HTTP endpoint": first.Addr().String(), "probe endpoint": second.Addr().String()}, taken)
	require.Eventually(t, func() bool { return strings.Contains(fake.Dump(), "azure-acl-npm-block") }, 30*time.Second, 10*time.Millisecond, "nothing is enforced")

	require.NoError(t, first.Close())
	s.listens()
	s.becomes("/readyz", 200, "ok\n")
	require.NoError(t, second.Close())
	require.Equal(t, second.Addr().String(), s.log("answering the kubelet's probes")["address"])
	s.addr = second.Addr().String()
	s.becomes("/healthz", 200, "ok\n")
	code, _ := s.get("/node-metrics")
	require.Equal(t, 404, code, "the probes' port has the health pages alone")
	s.stop()
	require.NoError(t, <-s.ended)
}
