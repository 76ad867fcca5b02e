package dataplane_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/desired"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/test/hnsfault"
)

const (
	cDeny     = `policy x/deny {podSelector: {}}`
	cWeb      = `policy x/web {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}], ports: [{port: 80}]}]}`
	cVersions = `policy x/versions {podSelector: {matchExpressions: [{key: app, operator: In, values: [v1, v2]}]}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}]}]}`
	cNotevil  = `policy x/notevil {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{namespaceSelector: {matchExpressions: [{key: kind, operator: NotIn, values: [evil]}]}}]}]}`
)

// TestScenario_B1_FirstFailureStopsNobody: the endpoint that comes first fails,
// whichever that is, and all others are done in the same round.
func TestScenario_B1_FirstFailureStopsNobody(t *testing.T) {
	for _, tc := range []struct{ op, event string }{
		{"ACL/Add", cNotevil},
		{"Endpoint/Get", "delete policy x/web"},
		{"ACL/Update", "delete policy x/web"},
	} {
		t.Run(tc.op, func(t *testing.T) {
			w := newWorld(t)
			w.do("namespace x", cWeb)
			for i := range 5 {
				w.do(fmt.Sprintf("endpoint ep-%d 10.0.0.%d", i, i+1), fmt.Sprintf("pod x/p%d 10.0.0.%d app=web", i, i+1))
			}
			w.do("apply")
			w.sim.Inject(hnsfault.Fault{Op: tc.op, Err: hns.ErrUnavailable})
			w.do(tc.event, "! apply")
			require.Len(t, w.report.Errors, 1)
			require.Equal(t, 1, w.report.Pending, "only the one that failed")
			w.settle()
		})
	}
}

// Whoever tells of a pod that could not be programmed asks whose policies that
// concerns.
func TestSelecting(t *testing.T) {
	w := newWorld(t)
	web := desired.PodKey{Namespace: "x", Name: "p"}
	w.do("namespace x", cWeb, cDeny, cVersions, "endpoint ep-1 10.0.0.1", "pod x/p 10.0.0.1 app=web", "pod x/far 10.0.0.2 app=web remote", "apply")
	require.Equal(t, []policy.Key{{Namespace: "x", Name: "deny"}, {Namespace: "x", Name: "web"}}, w.dp.Selecting(web))
	require.Empty(t, w.dp.Selecting(desired.PodKey{Namespace: "x", Name: "far"}), "not of this node")
	require.Empty(t, w.dp.Selecting(desired.PodKey{Namespace: "x", Name: "none"}))
	w.do("pod x/p 10.0.0.1 app=db", "apply")
	require.Equal(t, []policy.Key{{Namespace: "x", Name: "deny"}}, w.dp.Selecting(web))
}
