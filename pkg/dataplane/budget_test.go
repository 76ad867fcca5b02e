package dataplane_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/policy"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/script"
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

// A pod that is over its budget is in no set, not even in those that a pod without
// labels is in; blocks of addresses have it all the same.
func TestPodOverItsBudgetIsNoPeer(t *testing.T) {
	for peer, verdict := range map[string]string{
		`{podSelector: {}}`:       "block",
		`{namespaceSelector: {}}`: "block",
		`{podSelector: {matchExpressions: [{key: evil, operator: DoesNotExist}]}}`:                              "block",
		`{podSelector: {matchExpressions: [{key: evil, operator: NotIn, values: [a]}]}}`:                        "block",
		`{namespaceSelector: {}, podSelector: {matchExpressions: [{key: evil, operator: NotIn, values: [a]}]}}`: "block",
		`{namespaceSelector: {matchExpressions: [{key: evil, operator: DoesNotExist}]}}`:                        "block",
		`{ipBlock: {cidr: 10.0.0.0/24}}`: "allow",
	} {
		t.Run(peer, func(t *testing.T) {
			w := overWorld(t, 0, `policy x/p {podSelector: {matchLabels: {app: web}}, ingress: [{from: [`+peer+`]}]}`)
			w.do(bigToWeb+"allow", "over-budget "+bigPod, "apply", bigToWeb+verdict, bigPod, "apply", bigToWeb+"allow")
		})
	}
}

// A pod that is over its budget is closed in both directions, without any policy and
// whatever policies allow; the node reaches it. It is told once for a namespace, with a
// count.
func TestPodOverItsBudgetIsClosed(t *testing.T) {
	for _, policies := range [][]string{nil, {`policy x/p {podSelector: {}, policyTypes: [Ingress, Egress], ingress: [{}], egress: [{}]}`}} {
		w := overWorld(t, 0, policies...)
		require.Empty(t, w.report.Warnings)
		w.do(webToBig+"allow", bigOut+"allow", "over-budget "+bigPod, "over-budget "+hugePod, "apply",
			webToBig+"block", bigOut+"block", "trace 10.9.0.1 -> 10.0.0.2 TCP/80 ep-big in allow") // the kubelet's probes
		require.Equal(t, []state.Warning{{
			Object: "x/big", Kind: "Pod", Reason: state.ReasonOverBudget,
			Message: "it has 300 labels: it is in no set, and closed in both directions; so are 1 more pods of the namespace",
		}}, w.report.Warnings)
		w.do(bigPod, hugePod, "apply", webToBig+"allow")
		require.Empty(t, w.report.Warnings)
	}
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

// A policy that is over its budget has one warning and counts once, and what the pod
// may is nothing, until it is within again.
func TestPolicyOverItsBudget(t *testing.T) {
	const p = `policy x/p {podSelector: {matchLabels: {app: web}}, ingress: [{}]}`
	w := overWorld(t, 0, p)
	require.Empty(t, w.report.Warnings)
	w.do(bigToWeb + "allow")
	_, is := w.reader.Read(script.Words(p))
	is.Policy.Spec = policy.Close(&is.Policy.Spec, "it is too long")
	w.tx.SetPolicy(is.Policy)
	w.do("apply", bigToWeb+"block", "trace 10.0.0.1 -> 10.0.0.2 TCP/80 ep-web out allow") // it was about ingress alone
	require.Equal(t, []state.Warning{{
		Object: "x/p", Kind: "NetworkPolicy", Reason: state.ReasonOverBudget,
		Message: "spec: it is too long; the policy isolates and allows nothing. Make it smaller, or raise that key of the configuration",
	}}, w.report.Warnings)
	w.do(p, "apply", bigToWeb+"allow")
	require.Empty(t, w.report.Warnings)
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
