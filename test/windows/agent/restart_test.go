//go:build linux

package agent

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/test/windows/hnsd"
)

// A restart with nothing changed reads and writes nothing, however npm.exe
// ended before.
func TestScenario_A4_RestartsWriteNothing(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	d := draw(t, h, size{namespaces: 4, pods: 40, local: 8, policies: 12})
	n := start(t, ownNode, h.addr, options{})
	n.waitReady()
	h.waitVerdicts(d.kube, ownAddr)
	before := h.state()
	for i, end := range []func(){
		n.kill,
		func() {
			n.interrupt()
			require.Zero(t, n.wait(stopped))
		},
	} {
		end()
		_, _, err := n.get("/healthz")
		require.Error(t, err, "what has ended is npm.exe itself, not a parent of it")
		h.ResetCounts()
		n = start(t, ownNode, h.addr, options{})
		n.waitReady()
		always(t, 2*reconcileInterval, func() string {
			if writes := h.writes(); writes > 0 {
				return fmt.Sprintf("restart %d: %d writes: %v", i+1, writes, h.Counts())
			}
			return ""
		})
		require.Equal(t, before, h.state())
		require.Positive(t, h.Counts()["HcnEnumerateEndpoints"])
	}
}

// What was enforced stays enforced while a new agent cannot reach the API
// server; then it catches up.
func TestScenario_B3_RestartWithoutAPIServer(t *testing.T) {
	p := begin(t)
	h := newHost(t, azure())
	w := shop(t, h)
	n := start(t, ownNode, h.addr, options{})
	n.waitReady()
	h.waitVerdicts(w.kube, ownAddr)
	before := h.state()
	n.kill()
	w.policy("shop", "far", fromFar)

	p.servers.order(t, "stop")
	up := false
	t.Cleanup(func() {
		if !up {
			p.servers.order(t, "start")
		}
	})
	n = start(t, ownNode, h.addr, options{})
	always(t, 2*reconcileInterval, func() string {
		if n.check("/readyz") == "" {
			return "the agent says that it is ready"
		}
		return n.check("/healthz") + cmp.Diff(before, h.state())
	})
	t.Logf("/readyz: %s", n.check("/readyz"))

	p.servers.order(t, "start")
	up = true
	h.waitVerdicts(w.kube, ownAddr)
	n.waitReady()
}

// An agent that starts again and again while HNS fails leaves what is there.
func TestScenario_B4_RestartsWhileHNSFails(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	w := shop(t, h)
	n := start(t, ownNode, h.addr, options{})
	n.waitReady()
	h.waitVerdicts(w.kube, ownAddr)
	before := h.state()
	for _, proc := range []string{"HcnEnumerateNetworks", "HcnEnumerateEndpoints", "HcnQueryNetworkProperties", "HcnQueryEndpointProperties"} {
		n.kill()
		h.ResetCounts()
		h.Inject(hnsd.Fault{Proc: proc, Code: 0x800706BA})
		n = start(t, ownNode, h.addr, options{})
		failed := time.Now()
		eventually(t, settle, func() string {
			if diff := cmp.Diff(before, h.state()); diff != "" {
				require.FailNow(t, "HNS was changed", diff)
			}
			if len(h.UnusedFaults()) > 0 {
				return fmt.Sprintf("%s was not called: %v", proc, h.Counts())
			}
			return n.check("/readyz")
		})
		t.Logf("%s fails: ready after %v", proc, time.Since(failed).Round(time.Millisecond))
	}
	require.Equal(t, before, h.state())
}
