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

const (
	warning = `{"Success":false,"Error":"degraded","ErrorCode":2151350295}`
	failure = `{"Success":false,"Error":"no","ErrorCode":2151350274}`
)

// Whatever a single call answers, the agent stays healthy and HNS ends up as
// NetworkPolicy means it.
func TestFailedCalls(t *testing.T) {
	begin(t)
	h, w, n := openShop(t, calm...)

	const (
		endpointNotFound = 0x803B0002
		elementNotFound  = 0x80070490
		noSuchService    = 0x800706BA
		unspecified      = 0x80004005
	)
	for i, tc := range []struct {
		name  string
		fault hnsd.Fault
	}{
		{"a record with S_OK, ACLs written", hnsd.Fault{Proc: "HcnModifyEndpoint", Record: warning, Done: true}},
		{"a record with S_OK, ACLs not written", hnsd.Fault{Proc: "HcnModifyEndpoint", Record: warning}},
		{"a record with S_OK, sets written", hnsd.Fault{Proc: "HcnModifyNetwork", Record: warning, Done: true}},
		{"a record with S_OK, sets not written", hnsd.Fault{Proc: "HcnModifyNetwork", Record: warning}},
		{"0x803B0002 when an endpoint is opened", hnsd.Fault{Proc: "HcnOpenEndpoint", Code: endpointNotFound, Record: failure}},
		{"0x490 when an endpoint is opened", hnsd.Fault{Proc: "HcnOpenEndpoint", Code: elementNotFound, Record: failure}},
		{"0x803B0002 when an endpoint is read", hnsd.Fault{Proc: "HcnQueryEndpointProperties", Code: endpointNotFound, Record: failure}},
		{"0x490 when an endpoint is read", hnsd.Fault{Proc: "HcnQueryEndpointProperties", Code: elementNotFound}},
		{"0x803B0002 when ACLs are written", hnsd.Fault{Proc: "HcnModifyEndpoint", Code: endpointNotFound, Record: failure}},
		{"0x490 when ACLs are written", hnsd.Fault{Proc: "HcnModifyEndpoint", Code: elementNotFound}},
		{"0x490 three times when ACLs are written", hnsd.Fault{Proc: "HcnModifyEndpoint", Code: elementNotFound, Times: 3}},
		{"0x490 although the ACLs are written", hnsd.Fault{Proc: "HcnModifyEndpoint", Code: elementNotFound, Done: true}},
		{"the reply to a set write is lost", hnsd.Fault{Proc: "HcnModifyNetwork", Code: unspecified, Done: true}},
		{"the service is gone for three set writes", hnsd.Fault{Proc: "HcnModifyNetwork", Code: noSuchService, Times: 3}},
		{"the reply to a set write is lost, and the network cannot be read", hnsd.Fault{
			Proc: "HcnModifyNetwork", Code: unspecified, Done: true,
			Do: func() { h.Inject(hnsd.Fault{Proc: "HcnQueryNetworkProperties", Code: noSuchService, Times: 2}) },
		}},
		{"endpoints cannot be listed", hnsd.Fault{Proc: "HcnEnumerateEndpoints", Code: noSuchService, Times: 2}},
	} {
		held := t.Run(tc.name, func(t *testing.T) {
			h.Inject(tc.fault)
			// These need a listing, sets that were never there, and ACLs.
			peer := fmt.Sprintf("peer%d", i)
			w.local(h, "late", lateAddr)
			w.relabelPod("far", map[string]string{"app": peer})
			w.policy("shop", "late", fmt.Sprintf(
				`{podSelector: {matchLabels: {app: late}}, ingress: [{from: [{podSelector: {matchLabels: {app: %s}}}]}]}`, peer))
			eventually(t, settle, func() string {
				if len(h.UnusedFaults()) > 0 {
					return fmt.Sprintf("the call was not made often enough: %v", h.Counts())
				}
				return n.check("/healthz")
			})
			h.waitVerdicts(w.kube, ownAddr)
			require.NotEmpty(t, h.ours(lateAddr))
			n.waitReady()

			w.deletePolicy("shop", "late")
			h.unplug(lateAddr)
			require.NoError(t, w.kube.remove(t.Context(), pods, "shop", "late"))
			h.waitVerdicts(w.kube, ownAddr)
			n.waitReady()
			h.waitHandles()
		})
		require.True(t, held, "the others need what this one has left behind")
	}
}

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

// An endpoint that goes away while HNS is read takes nothing else along.
func TestEndpointVanishesInAListing(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	w := shop(t, h)
	w.local(h, "gone", goneAddr)
	n := start(t, ownNode, h.addr, options{flags: calm})
	n.waitReady()
	h.waitVerdicts(w.kube, ownAddr)
	gone := h.endpoints[goneAddr]
	delete(h.endpoints, goneAddr)
	vanished := make(chan struct{})
	h.Inject(hnsd.Fault{Proc: "HcnOpenEndpoint", Do: func() {
		if err := h.Sim().DeleteEndpoint(gone); err == nil {
			close(vanished)
		}
	}})
	w.local(h, "late", lateAddr) // its endpoint has to be looked for
	waitFor(t, vanished, "the listing")
	w.policy("shop", "late", `{podSelector: {matchLabels: {app: late}}}`)
	h.waitVerdicts(w.kube, ownAddr)
	require.NotEmpty(t, h.ours(lateAddr))
	require.Empty(t, n.check("/healthz"))
	eventually(t, settle, func() string {
		for _, e := range n.dump().Endpoints {
			if e.ID == gone {
				return "the endpoint that is gone is still in the dump"
			}
		}
		return ""
	})
	require.Contains(t, n.page("/node-metrics"), "\nnpm_windows_list_endpoints_failure_total 0\n", "it was read again at once")
}

// relabelPod gives a pod of the shop labels.
func (w *world) relabelPod(name string, labels map[string]string) {
	w.t.Helper()
	require.NoError(w.t, w.kube.patch(w.t.Context(), pods, "shop", name, "", labelPatch(w.t, labels)))
}
