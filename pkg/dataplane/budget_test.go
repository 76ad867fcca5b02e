package dataplane_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/dataplane"
	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/pkg/state"
	"github.com/winnpm/winnpm/test/effort"
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

// rulesOf returns our rules of an endpoint, in the order of their priorities.
func (w *world) rulesOf(id string) []hns.ACL {
	for _, e := range w.sim.Endpoints() {
		if e.ID == id {
			ours, _ := hns.Endpoint{Policies: e.Policies}.Split()
			slices.SortStableFunc(ours, func(a, b hns.ACL) int { return int(a.Priority) - int(b.Priority) })
			return ours
		}
	}
	w.t.Fatalf("no endpoint %s", id)
	return nil
}

// TestTiersOverBudget: if a pod has too many ACLs, its NetworkPolicies close; if that is not enough,
// only Deny rules remain, and in the end everything is blocked.
func TestTiersOverBudget(t *testing.T) {
	var denies []string
	for i := range 8 {
		denies = append(denies, fmt.Sprintf("{action: Deny, from: [{namespaces: {matchLabels: {team: t%d}}}]}, {action: Accept, from: [{namespaces: {matchLabels: {team: u%d}}}]}", i, i))
	}
	const p = `policy x/p {podSelector: {}, ingress: [{from: [{podSelector: {}}, {podSelector: {matchLabels: {a: a}}, namespaceSelector: {}}, {ipBlock: {cidr: 10.0.2.0/24}}]}]}`
	c := `cluster c {tier: Admin, priority: 1, subject: {namespaces: {}}, ingress: [{action: Pass, from: [{pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: q}}}}]}, ` + strings.Join(denies, ", ") + `]}`
	for _, test := range []struct {
		acls    int
		want    string
		objects []string
	}{
		{1000, "allow allow", nil},
		{27, "allow block", []string{"x/p"}},
		{20, "block block", []string{"c", "x/p"}},
		{5, "block block", []string{"c", "x/p"}},
	} {
		w := newWorld(t, func(c *dataplane.Config) { c.Budgets.ACLs = test.acls })
		w.do("namespace x team=xx", "namespace y team=u3", "namespace z team=zz", "node 10.0.0.100", "endpoint ep 10.0.0.1",
			"pod x/w 10.0.0.1", "pod y/p 10.0.1.1 remote", "pod z/q 10.0.2.1 app=q remote", p, c, "apply")
		require.Equal(t, test.want, w.in([]string{"10.0.1.1", "10.0.2.1"}, 80), "%d", test.acls)
		require.LessOrEqual(t, len(w.rulesOf("ep")), test.acls+1, "and the node")
		var objects []string
		for _, warning := range w.report.Warnings {
			require.Equal(t, state.ReasonOverBudget, warning.Reason)
			objects = append(objects, warning.Object)
		}
		require.Equal(t, test.objects, objects)
		w.do("trace 10.0.0.100 -> 10.0.0.1 TCP/80 ep in allow", "apply", "calls")
	}
}

// namedPolicy lets the pod of namedWorld out to the named port http of a peer; "" for everyone.
func namedPolicy(peer string) string {
	to := ""
	if peer != "" {
		to = "to: [" + peer + "], "
	}
	return `policy x/p {podSelector: {matchLabels: {app: web}}, policyTypes: [Egress], egress: [{` + to + `ports: [{port: http}]}]}`
}

// namedWorld is a node with a pod of namespace x and its namedPolicy.
func namedWorld(t testing.TB, peer string) *world {
	t.Helper()
	w := newWorld(t)
	w.do("namespace x", "namespace y team=a", "namespace evil", "endpoint ep 10.0.0.1", "pod x/web 10.0.0.1 app=web", namedPolicy(peer),
		"pod x/a 10.0.1.1 port=http:60001 remote", "pod x/b 10.0.1.2 port=http:60002 remote",
		"pod y/c 10.0.2.1 port=http:8080 remote", "pod y/d 10.0.2.2 port=http:60004 remote")
	return w
}

// serveHTTP sets pods of a namespace that serve http, each under a number of its own,
// from 1000 on.
func serveHTTP(w *world, namespace string, n int) {
	for i := range n {
		w.do(fmt.Sprintf("pod %s/%d 10.9.%d.%d port=http:%d remote", namespace, i, i/250, i%250+1, 1000+i))
	}
}

// rulesOfP returns the rules of policy x/p on the endpoint.
func rulesOfP(w *world) (out []hns.ACL) {
	ours, _ := hns.Endpoint{Policies: w.policiesOf("ep")}.Split()
	return slices.DeleteFunc(ours, func(a hns.ACL) bool { return a.ID != "azure-acl-x.p" })
}

// overBudget returns the warnings of that reason.
func overBudget(w *world) []state.Warning {
	return slices.DeleteFunc(w.dp.Dump().Warnings, func(one state.Warning) bool { return one.Reason != state.ReasonOverBudget })
}

// TestUnusedNumbersAreBounded: pods come and go under ever other numbers where the
// rule's peers are. What stays in an endpoint's rules meanwhile has a bound, and an
// Update comes for many numbers at a time.
func TestUnusedNumbersAreBounded(t *testing.T) {
	w := namedWorld(t, `{namespaceSelector: {}}`)
	most, updates := 0, 0
	turns := effort.Of(120, 400)
	for i := range turns {
		w.do(fmt.Sprintf("pod evil/%d 10.9.%d.%d port=http:%d remote", i, i/250, i%250+1, 1000+i))
		if i > 0 {
			w.do(fmt.Sprintf("delete pod evil/%d", i-1))
		}
		w.do("apply")
		most = max(most, len(rulesOfP(w)))
		updates += w.report.Calls[hns.OpACLUpdate]
	}
	t.Logf("at most %d rules, %d Updates", most, updates)
	require.LessOrEqual(t, most, 5+64+1)
	require.LessOrEqual(t, updates, turns/60)
	w.do("apply", "calls")
}

// TestStrangersNumbersCloseNoPolicy: 50 pods of another namespace serve a named port under so
// many numbers that a policy of eight rules is over the budget of its pod. The limit of numbers
// for that namespace drops, and the rest of the policy stays in force.
func TestStrangersNumbersCloseNoPolicy(t *testing.T) {
	var rules []string
	for i := range 8 {
		rules = append(rules, fmt.Sprintf("{to: [{namespaceSelector: {}}, {namespaceSelector: {matchExpressions: [{key: n, operator: NotIn, values: [v%d]}]}}], ports: [{port: http}, {port: %d}]}", i, 5000+i))
	}
	w := newWorld(t, func(c *dataplane.Config) { c.Budgets.ACLs = 400 })
	w.do("namespace x", "namespace y", "namespace evil", "endpoint ep 10.0.0.1", "pod x/web 10.0.0.1", "pod x/a 10.0.1.1 port=http:80 remote",
		"pod y/b 10.0.1.2 port=http:8080 remote", `policy x/p {podSelector: {}, policyTypes: [Egress], egress: [`+strings.Join(rules, ", ")+`]}`, "apply")
	honest := func() {
		w.do("trace 10.0.0.1 -> 10.0.1.1 TCP/80 ep out allow", "trace 10.0.0.1 -> 10.0.1.2 TCP/8080 ep out allow",
			"trace 10.0.0.1 -> 10.0.1.2 TCP/5007 ep out allow", "trace 10.0.0.1 -> 10.0.1.2 TCP/9999 ep out block")
	}
	honest()
	require.Empty(t, overBudget(w))
	serveHTTP(w, "evil", 50)
	w.do("apply")
	honest()
	w.do("trace 10.0.0.1 -> 10.9.0.1 TCP/1000 ep out allow", "trace 10.0.0.1 -> 10.9.0.50 TCP/1049 ep out block")
	require.Len(t, overBudget(w), 1)
	require.Contains(t, overBudget(w)[0].Message, "other namespaces")
	w.do("apply", "calls")
}

// TestUnusedNumbersAreFree: numbers of a named port that no pod serves any more stay for a while. They
// count nothing against MaxACLsPerPod, so they never displace a number in use.
func TestUnusedNumbersAreFree(t *testing.T) {
	w := newWorld(t, func(c *dataplane.Config) { c.Budgets.ACLs = 20 })
	w.do("namespace x", "namespace y", "namespace z", "endpoint ep 10.0.0.1", "pod x/web 10.0.0.1 app=web",
		"policy x/p {podSelector: {matchLabels: {app: web}}, policyTypes: [Egress], egress: [{to: [{namespaceSelector: {}}], ports: [{port: http}]}]}")
	for i := range 10 {
		w.do(fmt.Sprintf("pod y/s%d 10.0.1.%d port=http:%d remote", i, i+1, 8000+i))
	}
	for round := range 4 {
		for i := range 4 {
			w.do(fmt.Sprintf("pod z/t%d 10.0.2.%d port=http:%d remote", i, i+1, 9000+10*round+i))
		}
		require.NoError(t, w.apply())
		for i := range 4 {
			w.do(fmt.Sprintf("delete pod z/t%d", i))
		}
		require.NoError(t, w.apply())
		v, err := w.sim.Trace("ep", hns.Out, packet("10.0.0.1", "10.0.1.10", 8009))
		require.NoError(t, err)
		require.True(t, v.Allowed, "round %d", round)
		require.Empty(t, w.report.Warnings, "round %d", round)
	}
}
