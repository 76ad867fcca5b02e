package dataplane_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
)

// TestUnknownRemovalDelaysNobody: HNS hangs at a removal, and then cannot be read. What
// comes in is written all the same.
func TestUnknownRemovalDelaysNobody(t *testing.T) {
	w := newWorld(t)
	w.do("namespace x", "endpoint ep 10.0.0.1", "pod x/w 10.0.0.1", "pod x/a 10.0.1.1 app=api remote", bGood, "apply", "delete policy x/good")
	w.sim.Inject(hnsfault.Fault{Op: "SetPolicy/Remove", Times: -1})
	require.Error(t, w.apply())
	w.sim.Inject(hnsfault.Fault{Op: "Network/Get", Times: -1})
	require.True(t, w.report.Converged())
	w.do(bLater, "apply", "calls ACL/Add=1", "trace 10.0.1.1 -> 10.0.0.1 TCP/443 ep in allow")
	var reads []time.Duration
	for start := w.now; w.now.Sub(start) < time.Hour; w.now = w.now.Add(max(w.report.Next(), time.Second)) {
		_ = w.apply()
		if w.report.Calls["Network/Get"] > 0 {
			reads = append(reads, w.now.Sub(start))
		}
	}
	require.Less(t, len(reads), 130, "every 30 s in the end")
	require.Greater(t, len(reads), 100)
	w.do(bGood) // now it has to be read
	require.Error(t, w.apply())
	require.False(t, w.report.Converged())
}

// TestManyRemovalsFail: they are found in steps, as sets that are refused are.
func TestManyRemovalsFail(t *testing.T) {
	w := newWorld(t)
	w.sim.OnCall(nil)
	const sets = 200
	for i := range sets {
		w.do(fmt.Sprintf("put-set podlabel-k:v%d IPSET 10.9.9.9", i))
		w.refuse(fmt.Sprintf("podlabel-k:v%d", i), hns.ErrInvalid, 0x803B000D, hns.Remove)
	}
	w.do("put-set podlabel-fine IPSET 10.9.9.9", "endpoint ep 10.0.0.1", "namespace x", "pod x/w 10.0.0.1")
	rounds := 0
	for ; rounds < 20; rounds++ {
		_ = w.apply()
		require.LessOrEqual(t, w.report.Calls["SetPolicy/Remove"], 65)
		require.True(t, w.report.Converged())
		if w.report.Next() > time.Millisecond {
			break
		}
	}
	require.Less(t, rounds, 10)
	require.Len(t, w.sim.Sets(), sets)
	require.Len(t, w.report.Warnings, sets)
}

// TestRemovalAfterAGracePeriod: two sets that nobody needs go in one request, and one
// of them is refused with a code of no known meaning. The other goes in the same
// transaction: neither begins another grace period.
func TestRemovalAfterAGracePeriod(t *testing.T) {
	w := newWorld(t, func(c *dataplane.Config) { c.GracePeriod = time.Minute })
	w.do("namespace x", `policy x/gone {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: none}}}, {podSelector: {matchLabels: {app: nobody}}}]}]}`, "endpoint ep 10.0.0.1", "pod x/w 10.0.0.1 app=web", "apply", "delete policy x/gone", "apply", "wait 1m")
	w.sim.Inject(hnsfault.Fault{Op: "SetPolicy/Remove", Target: "podlabel-app:none", Times: -1, Code: 0x80004005})
	w.do("! apply")
	var left []string
	for _, s := range w.sim.Sets() {
		left = append(left, s.Name)
	}
	require.NotContains(t, left, "podlabel-app:nobody")
	require.Contains(t, left, "podlabel-app:none")
	require.Equal(t, 30*time.Second, w.report.Next())
	require.True(t, w.report.Converged())
}
