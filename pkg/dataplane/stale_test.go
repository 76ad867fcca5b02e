package dataplane_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
)

// TestStaleEndpointIsClosed: the labels of a namespace change, and HNS rejects the new list of one
// of its endpoints. Members of sets wait if the old rules of this endpoint would allow too much
// with them, so endpoints of other namespaces are late as well. After half a minute the endpoint
// is closed, and no member waits any more.
func TestStaleEndpointIsClosed(t *testing.T) {
	w := newWorld(t)
	w.do("namespace x team=aa", "namespace y team=cc", "endpoint ep 10.0.0.1", "endpoint ep-2 10.0.0.2", "pod x/w 10.0.0.1", "pod y/q 10.0.0.2",
		"pod x/r 10.0.1.1 remote", `cluster c {tier: Admin, priority: 5, subject: {namespaces: {matchLabels: {team: aa}}}, ingress: [
  {action: Accept, from: [{namespaces: {matchLabels: {team: bb}}}]}, {action: Deny, from: [{namespaces: {}}]}]}`, `cluster d {tier: Admin, priority: 6, subject: {namespaces: {matchLabels: {team: bb}}}, ingress: [{action: Deny, from: [{namespaces: {}}]}]}`, `cluster e {tier: Admin, priority: 7, subject: {namespaces: {matchLabels: {team: cc}}}, ingress: [
  {action: Accept, from: [{namespaces: {matchLabels: {team: bb}}}]}, {action: Deny, from: [{namespaces: {}}]}]}`, "apply")
	passes := func(endpoint, to string) bool {
		v, err := w.sim.Trace(endpoint, hns.In, packet("10.0.1.1", to, 80))
		require.NoError(t, err)
		return v.Allowed
	}
	var refusing bool
	w.sim.OnCall(func(c hnsfault.Call, when hnsfault.When) {
		if when == hnsfault.Before && refusing && c.Op == hns.OpACLUpdate && c.Target == "ep" {
			w.sim.Inject(hnsfault.Fault{Op: c.Op, Target: c.Target, Mode: hnsfault.Refuse})
		}
	})
	refusing = true
	w.do("namespace x team=bb")
	began := w.now
	for !passes("ep-2", "10.0.0.2") {
		_ = w.apply()
		require.False(t, passes("ep", "10.0.0.1"))
		require.Less(t, w.now.Sub(began), 2*time.Minute)
		w.now = w.now.Add(max(w.report.RetryAfter, time.Second))
	}
	require.GreaterOrEqual(t, w.now.Sub(began), 30*time.Second)
	require.Contains(t, ruleTexts(w.rulesOf("ep")), "202 block in azure-acl-npm-block-in")
	refusing = false
	w.do("settle")
	require.False(t, strings.Contains(ruleTexts(w.rulesOf("ep")), "202 block"))
	require.False(t, passes("ep", "10.0.0.1"))
	require.True(t, passes("ep-2", "10.0.0.2"))
}
