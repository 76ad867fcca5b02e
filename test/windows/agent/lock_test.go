//go:build linux

package agent

import (
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A second npm.exe on the node waits, reads nothing and writes nothing, and goes
// on when the first is gone, even if that was killed.
func TestSecondAgentWaits(t *testing.T) {
	h, _, first := openShop(t, calm...)
	enumerations := func() int { return h.Counts()["HcnEnumerateNetworks"] + h.Counts()["HcnEnumerateEndpoints"] }
	reads, writes := enumerations(), h.writes()

	second := start(t, ownNode, h.addr, options{flags: calm})
	const waits = "waiting for another agent on this node to end\n"
	eventually(t, settle, func() string {
		if said := second.check("/readyz"); said != waits {
			return "/readyz says: " + said
		}
		return second.check("/healthz")
	})
	require.Equal(t, waits, second.check("/readyz"))
	require.Empty(t, first.check("/readyz"))
	require.Empty(t, second.dump().Sets)
	require.Equal(t, reads, enumerations(), "%v", h.Counts())

	first.kill()
	second.waitReady()
	require.Equal(t, writes, h.writes(), "nothing had changed: %v", h.Counts())
	require.Greater(t, enumerations(), reads)
}

// A process that takes the port keeps nobody from enforcing, and the agent from
// answering only as long as it has it.
func TestPortIsTaken(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	shop(t, h)
	squatter, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer squatter.Close()
	n := spawn(t, ownNode, h.addr, options{flags: append([]string{"--listen", squatter.Addr().String()}, calm...)})
	h.waitShop(false)
	eventually(t, settle, func() string { // it may enforce before it listens
		if strings.Contains(n.said(), "cannot listen, working without it and trying again") {
			return ""
		}
		return "it does not say that it cannot listen"
	})
	require.NoError(t, squatter.Close())
	n.url = "http://" + squatter.Addr().String()
	n.waitReady()
	require.Equal(t, 1, strings.Count(n.said(), "cannot listen"))
}
