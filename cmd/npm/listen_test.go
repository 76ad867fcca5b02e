package main

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/tool/hnssim"
)

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
	require.NoError(t, fake.CreateEndpoint(hnssim.SimEndpoint{ID: "e1", Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}))
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
	s.end()
}
