//go:build linux

package agent

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/hnsfault"
)

// Limits of the rows of this file and those beside it: HNS answers what no table
// of ours says, and npm.exe closes first, looks, learns and goes on.
const (
	atOnce   = 10 * time.Second // "within seconds", on a busy machine
	aMinute  = 75 * time.Second // a round of the rolling look, and what is done about it
	never    = "5m"             // the interval of the reconciler in real life, in which no test ends
	lastPort = 8400             // of what a row refuses: each of its codes has a port of its own
)

// unlisted are codes that HNS or Windows has, and that are in no table of refusals.
var unlisted = []uint32{
	0x803B0030, 0x803B002F, 0x803B002D, 0x803B0016, 0x803B0032, 0x803B0033, // HCN_E_*
	0x80070032, 0x8007000D, 0x80004005, // ERROR_NOT_SUPPORTED, ERROR_INVALID_DATA, E_FAIL
}

// refuse has HNS refuse, until it is lifted, every request that has all the parts.
func (h *host) refuse(code uint32, parts ...string) (lift func()) {
	return h.Refuse(func(request string) bool {
		return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(request, part) })
	}, code)
}

// denies is text about the first probe that HNS does not deny, "" when it denies
// them all.
func (h *host) denies(probes ...hnsfault.Probe) string { return h.answers(hnsfault.Denied, probes) }

// allows is denies for packets that have to pass.
func (h *host) allows(probes ...hnsfault.Probe) string { return h.answers(hnsfault.Allowed, probes) }

func (h *host) answers(want hnsfault.Outcome, probes []hnsfault.Probe) string {
	for i, got := range h.Sim().Ask(probes...) {
		if got != want {
			return fmt.Sprintf("%+v is %v, not %v", probes[i], got, want)
		}
	}
	return ""
}

// warned says what is missing as long as no warning has the code and names the
// object.
func (n *npm) warned(code uint32, object string) string {
	n.t.Helper()
	all := n.dump().Warnings
	if slices.ContainsFunc(all, func(w state.Warning) bool {
		return strings.Contains(w.Object+" "+w.Message, object) &&
			strings.Contains(strings.ToLower(w.Message), fmt.Sprintf("0x%08x", code))
	}) {
		return ""
	}
	return fmt.Sprintf("no warning about %s has the code 0x%08x: %v", object, code, all)
}

// late is the i-th pod of a row, with its endpoint, once it is in the cluster.
func (w *world) late(h *host, i int) pod {
	w.t.Helper()
	p := pod{namespace: "shop", name: fmt.Sprintf("late-%d", i), node: ownNode, addr: addr(20 + i), labels: map[string]string{"app": fmt.Sprintf("late-%d", i)}}
	h.plug(p.addr)
	w.pods([]pod{p})
	return p
}

// guard is a policy that lets one app reach another at a port.
func (w *world) guard(name, app, from string, port int) {
	w.t.Helper()
	w.policy("shop", name, fmt.Sprintf(
		`{podSelector: {matchLabels: {app: %s}}, ingress: [{from: [{podSelector: {matchLabels: {app: %s}}}], ports: [{port: %d}]}]}`, app, from, port))
}

// Pods of the shop, and one that nobody knows.
var (
	webPod   = pod{addr: webAddr}
	dbPod    = pod{addr: dbAddr}
	farPod   = pod{addr: farAddr}
	stranger = pod{addr: outside}
)

// A rule that HNS refuses, with whatever code, keeps neither the pod open nor the
// other policy from it, and a warning has the code.
func TestAnswer_RefusedRule(t *testing.T) {
	begin(t)
	h, w, n := openShop(t, calm...)
	for i, code := range unlisted {
		t.Run(fmt.Sprintf("0x%08x", code), func(t *testing.T) {
			port := lastPort + i
			defer h.refuse(code, fmt.Sprintf(`"LocalPorts":"%d"`, port))()
			w.guard(fmt.Sprintf("good-%d", i), fmt.Sprintf("late-%d", i), "web", 80)
			w.guard(fmt.Sprintf("bad-%d", i), fmt.Sprintf("late-%d", i), "far", port)
			began := time.Now()
			late := w.late(h, i)
			eventually(t, atOnce, func() string {
				return h.denies(h.incoming(stranger, late, 80), h.incoming(stranger, late, uint16(port)))
			})
			closed := time.Since(began)
			eventually(t, atOnce, func() string {
				return h.allows(h.incoming(webPod, late, 80)) + h.denies(h.incoming(farPod, late, 80), h.incoming(webPod, late, 443)) +
					n.warned(code, fmt.Sprintf("bad-%d", i))
			})
			t.Logf("closed after %v, the other policy is in force after %v, %d requests failed",
				closed.Round(time.Millisecond), time.Since(began).Round(time.Millisecond), h.Failed()["HcnModifyEndpoint"])
		})
	}
}

// A set that HNS refuses, with whatever code, stops no other: addresses of pods
// that are gone go, and new pods get their rules.
func TestAnswer_RefusedSet(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	w := shop(t, h)
	n := start(t, ownNode, h.addr, options{flags: calm})
	n.waitReady()
	for i, code := range []uint32{0x803B002F, 0x80070032, 0x80004005} {
		t.Run(fmt.Sprintf("0x%08x", code), func(t *testing.T) {
			bad, peer, app := fmt.Sprintf("bad-%d", i), fmt.Sprintf("peer-%d", i), fmt.Sprintf("late-%d", i)
			remote := pod{namespace: "shop", name: peer, node: otherNode, addr: addr(40 + i), labels: map[string]string{"app": peer}}
			w.pods([]pod{remote})
			w.guard(peer, "db", peer, 443)
			eventually(t, atOnce, func() string { return h.allows(h.incoming(remote, dbPod, 443)) })

			defer h.refuse(code, "app:"+bad+`"`)()
			w.guard(bad, "db", bad, lastPort)
			w.guard(app, app, "web", 80)
			eventually(t, atOnce, func() string { return n.warned(code, bad) })
			require.NoError(t, w.kube.remove(t.Context(), pods, "shop", peer))
			began := time.Now()
			late := w.late(h, i)
			eventually(t, atOnce, func() string {
				return h.denies(h.incoming(remote, dbPod, 443), h.incoming(stranger, late, 80)) + h.allows(h.incoming(webPod, late, 80))
			})
			t.Logf("everything else is written after %v, %d requests failed", time.Since(began).Round(time.Millisecond), h.Failed()["HcnModifyNetwork"])
		})
	}
}

// What was refused for a moment is tried again though nothing changes.
func TestAnswer_RefusedForAMoment(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	w := shop(t, h)
	n := start(t, ownNode, h.addr, options{flags: calm})
	n.waitReady()
	const invalidPolicy, port = 0x803B000D, 8443
	rule := h.refuse(invalidPolicy, fmt.Sprintf(`"LocalPorts":"%d"`, port))
	set := h.refuse(invalidPolicy, `app:other"`)
	w.pods([]pod{{namespace: "shop", name: "other", node: otherNode, addr: lateAddr, labels: map[string]string{"app": "other"}}})
	w.guard("rule", "db", "far", port)
	w.guard("set", "web", "other", 80)
	eventually(t, atOnce, func() string { return n.warned(invalidPolicy, "rule") + n.warned(invalidPolicy, "other") })
	require.NotEmpty(t, h.allows(h.incoming(farPod, dbPod, port)))
	rule()
	set()
	lifted := time.Now()
	eventually(t, aMinute, func() string {
		return h.allows(h.incoming(farPod, dbPod, port), h.incoming(pod{addr: lateAddr}, webPod, 80))
	})
	t.Logf("in force %v after HNS takes it", time.Since(lifted).Round(time.Second))
	n.waitReady()
}

// When the set that a pod leaves is refused, the set that it joins is not written:
// in both it would get in, and it must not in either.
func TestAnswer_LeavingIsRefused(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	w := shop(t, h)
	w.policy("shop", "both", `{podSelector: {matchLabels: {app: db}}, ingress: [{from: [{podSelector: {matchLabels: {left: "1", right: "1"}}}], ports: [{port: 443}]}]}`)
	w.relabelPod("far", map[string]string{"left": "1"})
	n := start(t, ownNode, h.addr, options{flags: calm})
	n.waitReady()
	h.waitVerdicts(w.kube, ownAddr)
	crossing := h.incoming(farPod, dbPod, 443)
	h.watch([]hnsfault.Probe{crossing, h.incoming(webPod, dbPod, 80)})
	lift := h.refuse(0x803B000D, `left:1"`, `"Update"`)
	require.NoError(t, w.kube.patch(t.Context(), pods, "shop", "far", "", `{"metadata":{"labels":{"left":null,"right":"1"}}}`))
	eventually(t, atOnce, func() string {
		if h.Failed()["HcnModifyNetwork"] < 2 {
			return fmt.Sprintf("the set was not refused alone: %v", h.Failed())
		}
		return ""
	})
	always(t, 3*time.Second, func() string { return moves(h.Sim().Transitions()) })
	lift()
	h.waitVerdicts(w.kube, ownAddr)
	require.Empty(t, moves(h.Sim().Transitions()))
}

// A set that cannot be removed delays no event, however often that has failed, and
// keeps no other set from being removed.
func TestAnswer_RemovalFails(t *testing.T) {
	begin(t)
	for _, tc := range []struct {
		name  string
		code  uint32
		which string // of the sets that the policy needs is refused
		other string // is not
	}{
		{"a leaf, outcome unknown", 0x80004005, `app:none"`, "podlabel-app:nobody"},
		{"a nested set, invalid", 0x803B000D, `"NESTEDIPSET"`, "podlabel-app:nobody"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHost(t, azure())
			w := shop(t, h)
			w.policy("shop", "gone", `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: red}}}, {podSelector: {matchLabels: {app: none}}}, {podSelector: {matchLabels: {app: nobody}}}]}]}`)
			n := start(t, ownNode, h.addr, options{flags: []string{"--reconcile-interval", "1s"}})
			n.waitReady()
			h.waitVerdicts(w.kube, ownAddr)
			defer h.refuse(tc.code, `"Remove"`, tc.which)()
			w.deletePolicy("shop", "gone")
			patience, step := time.After(5*time.Second), 0 // for one that tries again and again
			eventually(t, settle, func() string {
				step++ // what nobody needs goes with the next event
				w.relabelPod("far", map[string]string{"app": "far", "step": fmt.Sprint(step)})
				if failed := h.Failed()["HcnModifyNetwork"]; failed == 0 || failed < 3 && !over(patience) {
					return fmt.Sprintf("%d removals failed", failed)
				}
				return ""
			})
			slowest := time.Duration(0)
			for i := range 3 {
				began := time.Now()
				w.guard(fmt.Sprintf("late-%d", i), fmt.Sprintf("late-%d", i), fmt.Sprintf("peer-%d", i), 80)
				late := w.late(h, i)
				eventually(t, atOnce, func() string { return h.denies(h.incoming(stranger, late, 80)) })
				slowest = max(slowest, time.Since(began))
			}
			require.Less(t, slowest, 2*time.Second)
			eventually(t, aMinute, func() string { // alone, after it has failed with the other
				for _, set := range h.Sim().Sets() {
					if set.Name == tc.other {
						return "nobody needs it, and it is there: " + set.Name
					}
				}
				return n.check("/readyz")
			})
			t.Logf("three pods and policies: each in force within %v, %d removals failed", slowest.Round(time.Millisecond), h.Failed()["HcnModifyNetwork"])
		})
	}
}
