package dataplane_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
)

const bugWeb = `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {matchLabels: {app: api}}}]}]}`

// TestDryRunDoesNotSpin: a dry run does not ask for another one at once.
func TestDryRunDoesNotSpin(t *testing.T) {
	w := newWorld(t)
	w.do("restart dryrun", "namespace x", "endpoint ep 10.0.0.1", "pod x/w 10.0.0.1 app=web", "policy x/p "+bugWeb, "apply", "apply")
	require.True(t, w.report.RetryAfter == 0 || w.report.RetryAfter >= time.Second, "%s", w.report.RetryAfter)
}

// TestDryRunWritesNothing: a dry run gives no block to an endpoint that is open and
// cannot be read.
func TestDryRunWritesNothing(t *testing.T) {
	w := newWorld(t)
	w.do("restart dryrun", "namespace x", "endpoint ep 10.0.0.1", "pod x/w 10.0.0.1 app=web", "policy x/p "+bugWeb, "apply")
	w.sim.Inject(hnsfault.Fault{Op: hns.OpEndpointGet, Times: 2})
	w.do("observe", "! apply")
	require.Empty(t, w.sim.UnusedFaults())
	for _, c := range w.sim.Calls() {
		require.True(t, hns.ReadsOnly(c.Op), "%s", c.Op)
	}
}

// TestFreshEndpointIsNotClosedWithoutAPolicy: the smallest policies of both directions do not fit into one batch; still the
// first request closes no direction without one of its policies.
func TestFreshEndpointIsNotClosedWithoutAPolicy(t *testing.T) {
	w := newWorld(t)
	w.do("restart batch=4", "namespace x", "endpoint ep 10.0.0.1", "pod x/w 10.0.0.1", `policy x/a {podSelector: {}, ingress: [{ports: [{port: 1}]}, {ports: [{port: 2}]}]}`, `policy x/b {podSelector: {}, policyTypes: [Egress], egress: [{ports: [{port: 1}]}, {ports: [{port: 2}]}]}`, "apply")
	first := slices.IndexFunc(w.sim.Calls(), func(c hnsfault.Call) bool { return c.Op == "ACL/Add" })
	acls := w.sim.Calls()[first].ACLs
	closed := slices.ContainsFunc(acls, func(a hns.ACL) bool { return a.Action == hns.Block && a.Direction == hns.In })
	open := slices.ContainsFunc(acls, func(a hns.ACL) bool { return a.Action == hns.Allow && a.Direction == hns.In })
	require.False(t, closed && !open, "%+v", acls)
}
