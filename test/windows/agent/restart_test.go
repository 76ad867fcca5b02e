//go:build linux

package agent

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/tool/hnssim"
)

// hurried lets a restart go through some rounds of the reconciler in a second.
const hurriedInterval = 500 * time.Millisecond

var hurried = []string{"--reconcile-interval", hurriedInterval.String()}

// A restart with nothing changed reads, writes nothing and moves no verdict,
// however npm.exe ended before.
func TestScenario_A4_RestartsWriteNothing(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	d := draw(t, h, size{namespaces: 4, pods: 40, local: 8, policies: 12})
	n := start(t, ownNode, h.addr, options{flags: hurried})
	n.waitReady()
	sum := h.waitVerdicts(d.kube, ownAddr)
	before := h.state()
	all := h.probes(h.known(d.kube, ownAddr))
	was := h.watch(all)
	const kills = 10
	for i := range kills + 1 {
		n = n.restart(h, i < kills)
		always(t, 2*hurriedInterval, h.touched)
		require.Equal(t, before, h.state())
	}
	t.Logf("%d probes that are allowed and %d that are denied, %d restarts: 0 writes, 0 transitions", sum.allowed, sum.denied, kills+1)

	// The same probes see a change.
	denied := all[slices.Index(was, hnsfault.Denied)]
	at := slices.IndexFunc(d.pods, func(p pod) bool { return h.endpoints[p.addr] == denied.Endpoint })
	d.world.policy(d.pods[at].namespace, "everything", `{podSelector: {}, policyTypes: [Ingress, Egress], ingress: [{}], egress: [{}]}`)
	h.waitVerdicts(d.kube, ownAddr)
	require.True(t, slices.ContainsFunc(h.Sim().Transitions(), func(x hnsfault.Transition) bool {
		return x.Probe == denied && x.To == hnsfault.Allowed && x.Write > 0
	}), h.touched())
}

// restart ends npm.exe, in the hardest way or by Ctrl-C, and returns the next
// one when it is ready. It checks that HNS was read meanwhile.
func (n *npm) restart(h *host, hard bool) *npm {
	n.t.Helper()
	if hard {
		n.kill()
	} else {
		n.interrupt()
		require.Zero(n.t, n.wait(stopped))
	}
	_, _, err := n.get("/healthz")
	require.Error(n.t, err, "what has ended is npm.exe itself, not a parent of it")
	read := h.Counts()["HcnEnumerateEndpoints"]
	next := start(n.t, ownNode, h.addr, options{flags: hurried})
	next.waitReady()
	require.Greater(n.t, h.Counts()["HcnEnumerateEndpoints"], read)
	return next
}

// What was enforced stays enforced while a new agent cannot reach the API
// server. When that is back nothing is written, unless something was changed.
func TestScenario_B3_RestartWithoutAPIServer(t *testing.T) {
	p := begin(t)
	h, w, n := openShop(t)
	h.watch(h.probes(h.known(w.kube, ownAddr)))
	up := true
	t.Cleanup(func() {
		if !up {
			require.NoError(t, p.servers.Order("start"))
		}
	})
	for _, changed := range []bool{false, true} {
		n.kill()
		if changed {
			w.policy("shop", "far", fromFar)
		}
		require.NoError(t, p.servers.Order("stop"))
		up = false
		n = start(t, ownNode, h.addr, options{})
		always(t, 2*reconcileInterval, func() string {
			if n.check("/readyz") == "" {
				return "the agent says that it is ready"
			}
			return n.check("/healthz") + h.touched()
		})
		t.Logf("/readyz: %s", n.check("/readyz"))

		require.NoError(t, p.servers.Order("start"))
		up = true
		h.waitVerdicts(w.kube, ownAddr)
		n.waitReady()
		if !changed {
			always(t, reconcileInterval, h.touched)
		}
	}
	seen := h.Sim().Transitions()
	require.Len(t, seen, 1, moves(seen))
	require.Equal(t, hnssim.Packet{Src: farAddr, Dst: dbAddr, Protocol: 6, DstPort: 443}, seen[0].Probe.Packet)
	require.Equal(t, hnsfault.Allowed, seen[0].To)
}
