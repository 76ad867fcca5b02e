//go:build linux

package agent

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A second npm.exe on the node waits, reads nothing and writes nothing, and goes
// on when the first is gone, even if that was killed.
func TestSecondAgentWaits(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	w := shop(t, h)
	first := start(t, ownNode, h.addr, options{flags: calm})
	first.waitReady()
	h.waitVerdicts(w.kube, ownAddr)
	h.ResetCounts()

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
	require.Zero(t, h.Counts()["HcnEnumerateNetworks"]+h.Counts()["HcnEnumerateEndpoints"], "%v", h.Counts())

	first.kill()
	second.waitReady()
	require.Zero(t, h.writes(), "nothing had changed: %v", h.Counts())
	require.Positive(t, h.Counts()["HcnEnumerateEndpoints"])
}
