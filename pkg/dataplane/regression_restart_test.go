package dataplane_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
)

// TestRestartReadFails: a new process that cannot read the sets, or cannot list
// the endpoints, knows too little to add or delete a set. It waits until it can.
func TestRestartReadFails(t *testing.T) {
	for _, op := range []string{"Network/Get", "Endpoint/Enumerate"} {
		t.Run(op, func(t *testing.T) {
			const p = `policy x/p {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}, {namespaceSelector: {matchLabels: {kind: evil}}}]}]}`
			w := dWorld(t)
			w.do(p, "apply")
			before := w.sim.Dump()

			w.do("restart")
			dObjects(w)
			w.do(p, "fault "+op+" * refuse", "! apply", "calls", "retry 1s")
			requireOnlyInjected(t, w.report, op)
			w.do("wait 1s", "apply", "calls")
			require.True(t, w.report.Converged())
			require.Empty(t, cmp.Diff(before, w.sim.Dump()))
		})
	}
}

// TestUnreadEndpointKeepsItsSets: the policy went while no process ran, and the new
// one cannot read an endpoint whose rules still name its sets. It deletes none of
// them, and does not say that all is programmed. One that can never be read keeps
// nothing up but its own sets, which HNS does not delete.
func TestUnreadEndpointKeepsItsSets(t *testing.T) {
	const p = `policy x/p {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}]}]}`
	for name, forGood := range map[string]bool{"once": false, "for good": true} {
		t.Run(name, func(t *testing.T) {
			w := dWorld(t)
			w.do(p, "apply", "restart")
			dObjects(w)
			times := 1
			if forGood {
				times = -1
			}
			w.sim.Inject(hnsfault.Fault{Op: hns.OpEndpointGet, Target: "ep-1", Times: times})
			w.do("! apply", "calls ACL/Update=2")
			requireOnlyInjected(t, w.report, hns.OpEndpointGet)
			require.NotZero(t, w.report.Unprogrammed)
			if !forGood {
				w.do("wait 1s", "apply", "calls ACL/Update=1 SetPolicy/Remove=1")
				require.Zero(t, w.report.Unprogrammed)
				require.Empty(t, w.sim.Sets())
				return
			}
			began, removed := w.now, time.Duration(0) // when a set was first to go
			for end := w.now.Add(2 * time.Minute); w.now.Before(end); {
				w.now = w.now.Add(w.report.Next())
				_ = w.apply()
				if removed == 0 && w.report.Calls[hns.OpSets(hns.Remove)] > 0 {
					removed = w.now.Sub(began)
				}
			}
			require.InDelta(t, 30, removed.Seconds(), 10, "the first removal")
			require.Zero(t, w.report.Unprogrammed)
			require.NotEmpty(t, w.sim.Sets())
		})
	}
}
