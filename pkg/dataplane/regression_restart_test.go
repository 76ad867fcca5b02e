package dataplane_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
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

			again := dWorldOn(t, w)
			again.do(p, "fault "+op+" * refuse", "! apply", "calls", "retry 1s")
			requireOnlyInjected(t, again.report, op)
			again.do("wait 1s", "apply", "calls")
			require.True(t, again.report.Converged())
			require.Empty(t, cmp.Diff(before, again.sim.Dump()))
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
			w.do(p, "apply")
			again := dWorldOn(t, w)
			times := 1
			if forGood {
				times = -1
			}
			again.sim.Inject(hnsfault.Fault{Op: hns.OpEndpointGet, Target: "ep-1", Times: times})
			again.do("! apply", "calls ACL/Update=2")
			requireOnlyInjected(t, again.report, hns.OpEndpointGet)
			require.NotZero(t, again.report.Unprogrammed)
			if !forGood {
				again.do("wait 1s", "apply", "calls ACL/Update=1 SetPolicy/Remove=1")
				require.Zero(t, again.report.Unprogrammed)
				require.Empty(t, again.sim.Sets())
				return
			}
			began, removed := again.now, time.Duration(0) // when a set was first to go
			for end := again.now.Add(2 * time.Minute); again.now.Before(end); {
				again.now = again.now.Add(again.report.Next())
				report, err := again.dp.ApplyDataplane(t.Context(), dataplane.NewTransaction())
				require.NoError(t, err)
				again.report = report
				if removed == 0 && report.Calls[hns.OpSets(hns.Remove)] > 0 {
					removed = again.now.Sub(began)
				}
			}
			require.InDelta(t, 30, removed.Seconds(), 10, "the first removal")
			require.Zero(t, again.report.Unprogrammed)
			require.NotEmpty(t, again.sim.Sets())
		})
	}
}
