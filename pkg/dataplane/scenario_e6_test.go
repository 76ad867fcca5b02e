package dataplane_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/test/effort"
)

// restartOf is a new process on the node of another, with the cluster staged.
func restartOf(t testing.TB, w *script, pods, local, policies int) *script {
	again := coldStart(t, pods, local, policies)
	again.sim, again.now = w.sim, w.now
	again.dp = dataplane.New(dataplane.Config{Client: w.sim, Node: "n1", Now: again.clock, MaxBatchedACLs: 30})
	return again
}

// TestScenario_E6_Restart: on the node of E5 nothing is written, and all that is
// read is the network and the list of endpoints, once.
func TestScenario_E6_Restart(t *testing.T) {
	pods, local, policies := effort.Of(2000, 20_000), 110, effort.Of(50, 500)
	w := coldStart(t, pods, local, policies)
	w.do("apply")
	before := w.sim.Dump()
	again := restartOf(t, w, pods, local, policies)
	again.do("apply")
	require.True(t, again.report.Converged())
	require.Equal(t, map[string]int{"Network/Get": 1, "Endpoint/Enumerate": 1, "Endpoint/Get": 110}, again.report.Calls)
	require.Equal(t, again.report.Calls, w.sim.Counts())
	require.Empty(t, cmp.Diff(before, w.sim.Dump()))
	again.do("observe", "apply", "calls")
}
