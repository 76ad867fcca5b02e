package dataplane_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/desired"
)

// TestReachedIsFinished: the namespace x gets other labels and another policy in one transaction.
// It leaves the deny twin of its old label only after its own endpoint has the new rules, which is
// in the next transaction. The random tests must expect that end, not the closed state before it.
func TestReachedIsFinished(t *testing.T) {
	w := newWalker(t, t.Context(), dataplane.Config{}, walkSim(), newCluster())
	tx := dataplane.NewTransaction()
	ns := func(team string) event {
		return event{text: "namespace x team=" + team, apply: func(c *cluster, tx *dataplane.Transaction) {
			c.spaces["x"] = desired.Namespace{Name: "x", Labels: map[string]string{"team": team}}
			tx.SetNamespace(c.spaces["x"])
		}}
	}
	pod := func(name, addr string, local bool) event {
		return setPod(desired.Pod{Namespace: "x", Name: name, UID: types.UID("uid-" + name), Addr: netip.MustParseAddr(addr), Local: local}, 1, "")
	}
	tier := event{text: "tier c0", apply: func(c *cluster, tx *dataplane.Transaction) {
		c.tiers["c0"] = walkTier(0, 1) // denies team=a port 80, and accepts every other namespace
		tx.SetClusterPolicy(c.tiers["c0"])
	}}
	for _, e := range []event{ns("a"), pod("p", "10.0.0.2", true), pod("q", "10.0.1.2", false), tier, setPolicy(walkPolicy("x", 2, 1), "policy x/t2")} {
		e.apply(w.cluster, tx)
	}
	w.createEndpoint("ep-1", "10.0.0.2", false)
	w.applyWhole(tx)
	w.settle()

	states := w.reached([]event{ns("b"), setPolicy(walkPolicy("x", 1, 0), "policy x/t1")}, w.watched())
	require.Len(t, states, 2, "something is due at once after the transaction")
	changed := 0
	for p, allowed := range states[1] {
		if states[0][p] != allowed {
			changed++
			require.True(t, allowed, "%+v was open too early", p)
			require.Equal(t, uint16(80), p.DstPort)
		}
	}
	require.Positive(t, changed)
}
