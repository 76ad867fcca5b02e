//go:build linux

package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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

	fresh := newHost(t, azure())
	for addr := range h.endpoints {
		fresh.plug(addr)
	}
	undisturbed := start(t, ownNode, fresh.addr, options{})
	undisturbed.waitReady()
	fresh.waitVerdicts(c.kube, ownAddr)
	undisturbed.kill() // one agent per node, and Wine is one node

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

// over reports whether a channel of time.After has fired.
func over(end <-chan time.Time) bool {
	select {
	case <-end:
		return true
	default:
		return false
	}
}
