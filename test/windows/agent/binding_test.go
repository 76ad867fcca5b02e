//go:build linux

package agent

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// byHcsshim is fast with the other binding.
const byHcsshim = `{"ApplyIntervalInMilliseconds": 20, "HNSBinding": "hcsshim"}`

// TestAgentByHcsshim: with HNSBinding: hcsshim npm.exe programs the same, a restart with
// either binding writes nothing, and no call is made that ours would make.
func TestAgentByHcsshim(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	w := shop(t, h)
	n := start(t, ownNode, h.addr, options{config: byHcsshim})
	n.waitReady()
	h.waitVerdicts(w.kube, ownAddr)
	counts := h.Counts()
	require.Greater(t, counts["HcnQueryEndpointProperties"], counts["HcnModifyEndpoint"], "hcsshim reads after each write: %v", counts)
	before := h.state()
	for _, config := range []string{fast, byHcsshim} {
		n.kill()
		h.ResetCounts()
		n = start(t, ownNode, h.addr, options{config: config})
		n.waitReady()
		require.Zero(t, h.writes(), "%s", config)
		require.Equal(t, before, h.state())
	}
	w.policy("shop", "far", fromFar)
	h.waitVerdicts(w.kube, ownAddr)
}
