package dataplane_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/hns/hnssim"
)

// TestScenario_B1_FirstFailureStopsNobody: the endpoint that comes first fails,
// whichever that is, and all others are done in the same round.
func TestScenario_B1_FirstFailureStopsNobody(t *testing.T) {
	for _, tc := range []struct{ op, event string }{
		{"ACL/Add", "policy notevil"},
		{"Endpoint/Get", "delete policy x/web"},
		{"ACL/Update", "delete policy x/web"},
	} {
		t.Run(tc.op, func(t *testing.T) {
			w := newWorld(t, cPolicies)
			w.do("namespace x", "policy web")
			for i := range 5 {
				w.do(fmt.Sprintf("endpoint ep-%d 10.0.0.%d", i, i+1), fmt.Sprintf("pod x/p%d 10.0.0.%d app=web", i, i+1))
			}
			w.do("apply")
			w.sim.Inject(hnssim.Fault{Op: tc.op, Err: hns.ErrUnavailable})
			w.do(tc.event, "! apply")
			require.Len(t, w.report.Errors, 1)
			require.Equal(t, 1, w.report.Pending, "only the one that failed")
			w.settle()
		})
	}
}
