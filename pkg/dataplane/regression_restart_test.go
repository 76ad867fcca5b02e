package dataplane_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

// TestRestartReadFails: a new process that cannot read the sets, or cannot list
// the endpoints, knows too little to add or delete a set. It waits until it can.
func TestRestartReadFails(t *testing.T) {
	for _, op := range []string{"Network/Get", "Endpoint/Enumerate"} {
		t.Run(op, func(t *testing.T) {
			text := policyText("p", `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}, {namespaceSelector: {matchLabels: {kind: evil}}}]}]}`)
			w := dWorld(t, text)
			w.do("policy p", "apply")
			before := w.sim.Dump()

			again := dWorldOn(t, text, w)
			again.do("policy p", "fault "+op+" * refuse", "! apply", "calls", "retry 1s")
			requireOnlyInjected(t, again.report, op)
			again.do("advance 1s", "apply", "calls")
			require.True(t, again.report.Converged())
			require.Empty(t, cmp.Diff(before, again.sim.Dump()))
		})
	}
}
