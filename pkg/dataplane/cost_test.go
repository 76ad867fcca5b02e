package dataplane_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
)

// TestCostOfARemotePodEvent counts allocations, which stand for the work that
// asks HNS for nothing: the event of a pod that is in no set of a rule costs as
// much on a node with many isolated pods as on one with two.
func TestCostOfARemotePodEvent(t *testing.T) {
	small, large := podEventAllocs(t, 2), podEventAllocs(t, 100)
	t.Logf("%.0f allocations with 2 pods, %.0f with 100", small, large)
	// To render one endpoint with its policies takes more than that.
	require.LessOrEqual(t, large, small+10)
}

// podEventAllocs returns what such an event allocates on average, on a node
// with so many isolated pods.
func podEventAllocs(t *testing.T, locals int) float64 {
	const policies = 10
	w := newWorld(t)
	w.do("namespace x")
	for i := range policies {
		w.do(fmt.Sprintf("policy x/p%d {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: a%d}}}, {namespaceSelector: {}}]}]}", i, i))
	}
	for i := range locals {
		w.do(fmt.Sprintf("endpoint ep-%d 10.0.0.%d", i, i+1), fmt.Sprintf("pod x/p%d 10.0.0.%d", i, i+1))
	}
	w.do("apply")
	n := 0
	return testing.AllocsPerRun(50, func() {
		n++
		tx := dataplane.NewTransaction()
		tx.SetPod(desired.Pod{
			Namespace: "elsewhere", Name: "r", UID: "r", Addr: netip.MustParseAddr("10.0.9.9"),
			Labels: map[string]string{"version": fmt.Sprint(n)},
		})
		report, err := w.dp.ApplyDataplane(t.Context(), tx)
		require.NoError(t, err)
		require.Empty(t, report.Calls)
	})
}

// TestCostOfALocalPodEvent: a local pod that stays where it is and what it is to
// the policies makes nobody read or write anything.
func TestCostOfALocalPodEvent(t *testing.T) {
	w := newWorld(t)
	w.do("namespace x", "endpoint ep 10.0.0.1", "pod x/p 10.0.0.1 app=v1", cVersions, cDeny, "apply",
		"pod x/p 10.0.0.1 app=v2 hash=1", "apply")
	require.Empty(t, w.report.Calls)
}
