//go:build linux

package agent

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/test/windows/hnsd"
)

// While a call hangs the agent says so and answers, and nothing piles up; when
// the call comes back it goes on.
func TestScenario_B5_CallThatNeverReturns(t *testing.T) {
	for _, proc := range []string{"HcnModifyEndpoint", "HcnModifyNetwork", "HcnEnumerateEndpoints"} {
		t.Run(proc, func(t *testing.T) { hang(t, proc) })
	}
}

func hang(t *testing.T, proc string) {
	begin(t)
	h := newHost(t, azure())
	w := shop(t, h)
	const timeout = 2 * time.Second
	n := start(t, ownNode, h.addr, options{flags: []string{"--hns-timeout", timeout.String()}})
	n.waitReady()
	h.waitVerdicts(w.kube, ownAddr)
	goroutines := n.goroutines()

	hangs := make(chan struct{})
	h.Inject(hnsd.Fault{Proc: proc, Hang: true, Do: func() { close(hangs) }})
	t.Cleanup(h.ReleaseHangs)
	w.policy("shop", "far", fromFar)
	waitFor(t, hangs, "the call that hangs")
	eventually(t, timeout+2*time.Second, func() string {
		if n.check("/healthz") == "" {
			return "a call hangs and the agent says that it is healthy"
		}
		return ""
	})
	t.Logf("/healthz: %s", n.check("/healthz"))

	// Life goes on, for some reconcile intervals.
	for i := range 20 {
		w.relabelPod("web", map[string]string{"app": "web", "step": fmt.Sprint(i)})
	}
	most := 0
	always(t, 2*reconcileInterval, func() string {
		most = max(most, n.goroutines())
		return ""
	})
	require.LessOrEqual(t, most, goroutines+10, "goroutines while a call hangs, and %d before", goroutines)
	require.NotEmpty(t, n.check("/healthz"))
	if ready := n.check("/readyz"); strings.HasPrefix(proc, "HcnModify") {
		require.NotEmpty(t, ready, "a policy is not programmed")
	}
	require.Len(t, n.dump().Policies, 2, "the dump shows what the agent would like to do")
	require.Regexp(t, `npm_hns_errors_total\{class="unavailable",operation="[^"]+"\} [1-9]`, n.page("/node-metrics"))
	require.Contains(t, n.page("/cluster-metrics"), "\nnpm_num_policies 2\n")

	h.ReleaseHangs()
	eventually(t, settle, func() string { return n.check("/healthz") })
	h.waitVerdicts(w.kube, ownAddr)
	n.waitReady()
	require.LessOrEqual(t, n.goroutines(), goroutines+3)
}

// An HNS that ends while the agent runs, and comes back without anything of
// ours, is filled again; until then the agent says what it lacks.
func TestScenario_B6_HNSGoesAway(t *testing.T) {
	begin(t)
	h, w, n := openShop(t)
	h.stop()
	w.policy("shop", "far", fromFar)
	eventually(t, settle, func() string {
		if n.check("/readyz") == "" {
			return "the agent says that it is ready"
		}
		return ""
	})
	t.Logf("/readyz: %s", n.check("/readyz"))
	require.Empty(t, n.check("/healthz"), "a restart of the agent would not help")

	again := newHostAt(t, h.addr, azure())
	again.plug(webAddr, dbAddr) // with the GUIDs that they had
	require.Equal(t, h.endpoints, again.endpoints)
	again.waitVerdicts(w.kube, ownAddr)
	n.waitReady()
}

// relabelPod gives a pod of the shop labels.
func (w *world) relabelPod(name string, labels map[string]string) {
	w.t.Helper()
	require.NoError(w.t, w.kube.patch(w.t.Context(), pods, "shop", name, "", labelPatch(w.t, labels)))
}
