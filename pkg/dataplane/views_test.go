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
	w := newWorld(t, func(c *dataplane.Config) { c.Budgets.ACLs = 500 })
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
