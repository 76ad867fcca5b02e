package dataplane_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/state"
)

// The pods of overWorld, which a test may put over their budget. The last one is on another node.
const (
	bigPod  = "pod x/big 10.0.0.2"
	hugePod = "pod x/huge 10.0.0.3 remote"
)

const (
	bigToWeb = "trace 10.0.0.2 -> 10.0.0.1 TCP/80 ep-web in "
	webToBig = "trace 10.0.0.1 -> 10.0.0.2 TCP/80 ep-big in "
	bigOut   = "trace 10.0.0.2 -> 192.0.2.1 TCP/80 ep-big out "
)

// overWorld is a node with three pods within their budgets, and policies.
func overWorld(t *testing.T, acls int, policies ...string) *world {
	w := newWorld(t)
	w.do(fmt.Sprintf("restart acls=%d", acls), "endpoint ep-web 10.0.0.1 bare", "endpoint ep-big 10.0.0.2 bare", "node 10.9.0.1", "namespace x",
		"pod x/web 10.0.0.1 app=web", bigPod, hugePod)
	w.do(policies...)
	w.do("apply")
	return w
}

// TestPoliciesCloseOnAPod: what the policies of a pod come to is bounded. If it is too much, all of
// them close on the pod, and isolate it.
func TestPoliciesCloseOnAPod(t *testing.T) {
	w := overWorld(t, 30, peersOfWeb("p0", "a", 20), peersOfWeb("p1", "b", 19), `policy x/p2 {podSelector: {matchLabels: {app: other}}, ingress: [{}]}`)
	require.Equal(t, []string{"x/p0", "x/p1"}, objects(w.report))
	for _, warning := range w.report.Warnings {
		require.Equal(t, state.ReasonOverBudget, warning.Reason)
	}
	require.Len(t, w.rulesOf("ep-web"), 4, "the block, the node and the allow-all pair")
	w.do(bigToWeb + "block")
}

// peersOfWeb returns a policy of the pod web, with so many peers, and all pods.
func peersOfWeb(name, key string, n int) string {
	text := `policy x/` + name + ` {podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {}}`
	for i := range n {
		text += fmt.Sprintf(", {podSelector: {matchLabels: {%s: v%d}}}", key, i)
	}
	return text + "]}]}"
}

// A policy whose peers and ports multiply costs a pod nothing but its isolation.
func TestBytesOfAPod(t *testing.T) {
	var peers, ports []string
	for i := range 1000 {
		peers = append(peers, fmt.Sprintf("{podSelector: {matchLabels: {a: v%d}}}", i))
	}
	for i := range 2500 {
		ports = append(ports, fmt.Sprintf("{port: %d}", 2*i+1))
	}
	w := overWorld(t, 0, `policy x/p {podSelector: {matchLabels: {app: web}}, ingress: [{from: [`+strings.Join(peers, ",")+`], ports: [`+strings.Join(ports, ",")+`]}]}`)
	require.Len(t, w.report.Warnings, 1)
	require.Contains(t, w.report.Warnings[0].Message, "MaxACLsPerPod")
	w.do(bigToWeb + "block")
}

// TestRoomOnAPodAgain: a policy that closed for the budget of a pod is in force again as soon as it
// fits: when another policy is deleted, becomes smaller, or no longer selects the pod. The same
// holds if a ClusterNetworkPolicy used up the budget.
func TestRoomOnAPodAgain(t *testing.T) {
	const other = `policy x/p0 {podSelector: {matchLabels: {app: no}}, ingress: [{from: [{ipBlock: {cidr: 192.0.2.9/32}}]}]}`
	// Of 30 ACLs the first policy takes 20, a little less than the second. Its peers are no pods.
	first := strings.Replace(peersOfWeb("p0", "a", 19), "{podSelector: {}}, ", "", 1)
	tiers := `cluster c {tier: Admin, priority: 1, subject: {pods: {podSelector: {matchLabels: {app: web}}}}, ingress: [`
	for i := range 12 {
		tiers += fmt.Sprintf("{action: Deny, from: [{pods: {podSelector: {matchLabels: {c: v%d}}}}]}, {action: Accept, from: [{pods: {podSelector: {matchLabels: {d: v%d}}}}]}, ", i, i)
	}
	tiers += "]}"
	for name, test := range map[string]struct{ fills, makesRoom string }{
		"deleted":         {first, "delete policy x/p0"},
		"smaller":         {first, strings.Replace(other, "app: no", "app: web", 1)},
		"of another pod":  {first, other},
		"tiered, deleted": {tiers, "delete cluster c"},
	} {
		t.Run(name, func(t *testing.T) {
			isClosed := func(r state.Report) bool {
				return slices.ContainsFunc(r.Warnings, func(x state.Warning) bool { return x.Object == "x/p1" && x.Reason == state.ReasonOverBudget })
			}
			w := overWorld(t, 30, other, peersOfWeb("p1", "b", 19))
			require.Empty(t, w.report.Warnings)
			w.do(bigToWeb+"allow", test.fills, "apply", bigToWeb+"block")
			require.True(t, isClosed(w.report), "%v", w.report.Warnings)
			w.do(test.makesRoom, "apply", bigToWeb+"allow", "trace 192.0.2.1 -> 10.0.0.1 TCP/80 ep-web in block") // there is room again
			require.False(t, isClosed(w.report))
		})
	}
}
