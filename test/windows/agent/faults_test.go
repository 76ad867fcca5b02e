//go:build linux

package agent

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// While a call hangs the agent says so and answers. When the call comes back it goes on, and when
// it never does, Ctrl-C ends the agent all the same.
func TestScenario_B5_CallThatNeverReturns(t *testing.T) {
	const timeout = 2 * time.Second
	h, w, n := openShop(t, "--hns-timeout", timeout.String())
	hang := func() (release func()) {
		hangs, released := make(chan struct{}), make(chan struct{})
		release = sync.OnceFunc(func() { close(released) })
		t.Cleanup(release)
		h.atWrite(1, func() {
			close(hangs)
			<-released
		})
		w.policy("shop", "far", fromFar)
		waitFor(t, hangs, "the call that hangs")
		return release
	}
	release := hang()
	eventually(t, timeout+2*time.Second, func() string {
		if n.check("/healthz") == "" {
			return "a call hangs and the agent says that it is healthy"
		}
		return ""
	})
	t.Logf("/healthz: %s", n.check("/healthz"))
	require.NotEmpty(t, n.check("/readyz"), "a policy is not programmed")
	require.Len(t, n.dump().Policies, 2, "the dump shows what the agent would like to do")
	require.Regexp(t, `npm_hns_errors_total\{class="unavailable",operation="[^"]+"\} [1-9]`, n.page("/node-metrics"))
	require.Contains(t, n.page("/cluster-metrics"), "\nnpm_num_policies 2\n")

	release()
	eventually(t, settle, func() string { return n.check("/healthz") })
	h.waitShop(true)
	n.waitReady()

	require.NoError(t, w.kube.remove(t.Context(), policies, "shop", "far"))
	h.waitShop(false)
	hang()
	n.interrupt()
	require.Zero(t, n.wait(stopped), n.said())
}

// An HNS that ends while the agent runs, and comes back without anything of
// ours, is filled again; until then the agent says what it lacks.
func TestScenario_B6_HNSGoesAway(t *testing.T) {
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
	again.waitShop(true)
	n.waitReady()
}
