//go:build linux

package agent

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/windows/hnsd"
)

// An npm.exe that is killed again and again while the cluster changes leaves
// what one leaves that was never disturbed.
func TestKilledAtRandomMoments(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	c := newChanges(draw(t, h, size{namespaces: 4, pods: 40, local: 8, policies: 12}), h)
	const kills = 10
	for i := range kills {
		n := spawn(t, ownNode, h.addr, options{})
		lives := time.Duration(200+c.IntN(1800)) * time.Millisecond
		for end := time.After(lives); !over(end); {
			c.step()
		}
		n.kill()
		t.Logf("kill %d after %v: %v; %d writes so far", i+1, lives, c, h.writes())
		for range c.IntN(4) { // nobody is told of these
			c.step()
		}
	}

	fresh := h.undisturbed(c.kube, ownAddr)
	n := start(t, ownNode, h.addr, options{})
	n.waitReady()
	h.waitVerdicts(c.kube, ownAddr)
	h.waitState(fresh.state)
	require.NotEmpty(t, fresh.sets())
	require.Zero(t, h.Failed()["HcnModifyNetwork"], "HNS refused a set: %v", h.Failed())

	n.kill()
	_, _, err := n.get("/healthz")
	require.Error(t, err, "the process that was killed is npm.exe itself, not a parent of it")
}

// undisturbed returns an HNS with the same endpoints, programmed by an agent that
// nobody disturbed. No other agent may run meanwhile: there is one per node, and
// Wine is one node.
func (h *host) undisturbed(k *kube, nodeAddrs ...netip.Addr) *host {
	h.t.Helper()
	fresh := newHost(h.t, azure())
	for addr := range h.endpoints {
		fresh.plug(addr)
	}
	n := start(h.t, ownNode, fresh.addr, options{})
	n.waitReady()
	fresh.waitVerdicts(k, nodeAddrs...)
	n.kill()
	return fresh
}

// over reports whether a channel of time.After has fired.
func over(end <-chan time.Time) bool {
	select {
	case <-end:
		return true
	default:
		return false
	}
}

// At whichever call of HNS npm.exe is killed while a policy changes, and whether
// or not HNS carries that call out: no verdict moves but from what it was to what
// it is in the end, and that once, as without a kill.
func TestKilledWhilePoliciesChange(t *testing.T) {
	begin(t)
	h := newHost(t, azure())
	c := newChanges(draw(t, h, size{namespaces: 3, pods: 30, local: 6, policies: 9}), h)
	n := start(t, ownNode, h.addr, options{})
	n.waitReady()
	h.waitVerdicts(c.kube, ownAddr)
	const kills, calls = 10, 16
	moved := 0
	for i := range kills {
		all := h.probes(h.known(c.kube, ownAddr))
		h.ResetCounts()
		was := h.Sim().Watch(all...) // an edit may leave nothing allowed; moved says what the watch proves
		require.NotContains(t, was, hnsfault.Unanswered)
		victim, died := n, make(chan struct{})
		fault := hnsd.Fault{Nth: 1 + c.IntN(calls), Do: func() {
			victim.kill()
			close(died)
		}}
		lost := c.IntN(2) == 0
		if lost {
			fault.Code = 0x800706BA
		}
		h.Inject(fault)
		c.changePolicy(c.IntN(c.policies))
		waitFor(t, died, "the call at which npm.exe is killed")
		written := h.writes()
		n = start(t, ownNode, h.addr, options{})
		n.waitReady()
		h.waitVerdicts(c.kube, ownAddr)

		seen := h.Sim().Transitions()
		to := map[hnsfault.Probe]hnsfault.Outcome{}
		for _, x := range seen {
			require.NotContains(t, to, x.Probe, "it moved twice: %s", moves(seen))
			to[x.Probe] = x.To
		}
		for j, now := range h.Sim().Ask(all...) {
			require.Equal(t, now != was[j], to[all[j]] == now, "%+v", all[j])
		}
		moved += len(seen)
		t.Logf("kill %d at call %d, carried out: %t; %d writes before, %d after; %d verdicts moved", i+1, fault.Nth, !lost, written, h.writes()-written, len(seen))
	}
	require.Positive(t, moved, "no edit meant anything")
	n.kill()

	fresh := h.undisturbed(c.kube, ownAddr)
	n = start(t, ownNode, h.addr, options{})
	n.waitReady()
	h.waitState(fresh.state)
}
