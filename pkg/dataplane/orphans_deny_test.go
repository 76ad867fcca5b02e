package dataplane_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

// denyOrphan is a set that only rules in HNS name, of a ClusterNetworkPolicy that went
// while no process ran, and what belongs into it before and after.
type denyOrphan struct {
	policies      []string
	before, after []string // the pods and namespaces
	role          string   // of the node 10.1.0.1 after; before it is db
	set           string
}

// nodeTiers denies what goes to nodes of one role and accepts what goes to those of
// another one; nothing else goes out.
const nodeTiers = `cluster nodes {tier: Admin, priority: 1, subject: {namespaces: {}}, egress: [{action: Deny, to: [{nodes: {matchLabels: {role: db}}}]}, {action: Accept, to: [{nodes: {matchLabels: {role: web}}}]}, {action: Deny, to: [{networks: [0.0.0.0/0]}]}]}`

const (
	dbNodes  = "deny-nodes-role=db"
	webNodes = "nodes-role=web"
)

// blockTiers passes a block on to rules about pods: an Allow and a Block for each.
const (
	blockAdmin = `cluster admin {tier: Admin, priority: 1, subject: {namespaces: {}}, egress: [{action: Pass, to: [{networks: [10.0.1.0/24]}]}, {action: Deny, to: [{networks: [10.0.0.0/8]}]}]}`
	blockBase  = `cluster base {tier: Baseline, priority: 1, subject: {namespaces: {}}, egress: [{action: Accept, to: [{namespaces: {matchLabels: {team: b}}}]}, {action: Deny, to: [{namespaces: {matchLabels: {team: a}}}]}]}`
)

const (
	plainBlock = "inblocks-10.0.1.0/24"
	denyBlock  = "deny-inblocks-10.0.1.0/24"
)

// nextTier is what comes instead: it denies nobody, and mentions a set that is new.
const nextTier = `cluster next {tier: Baseline, priority: 9, subject: {namespaces: {}}, ingress: [{action: Accept, from: [{pods: {namespaceSelector: {}, podSelector: {matchLabels: {is: new}}}}]}]}`

// denies is a ClusterNetworkPolicy with one rule that denies.
func denies(rule string) string {
	return `cluster old {tier: Admin, priority: 1, subject: {namespaces: {}}, ` + rule + `}`
}

// fromPods is one that denies what comes from pods that a selector matches.
func fromPods(selector string) string {
	return denies(`ingress: [{action: Deny, from: [{pods: {namespaceSelector: {matchLabels: {team: a}}, podSelector: {` + selector + `}}}]}]`)
}

// fromSpaces is one that denies what comes from namespaces that a selector matches.
func fromSpaces(selector string) string {
	return denies(`ingress: [{action: Deny, from: [{namespaces: {` + selector + `}}]}]`)
}

// denyOrphans returns one case for each kind of set.
func denyOrphans() map[string]denyOrphan {
	out := map[string]denyOrphan{}
	with := func(policies ...string) func(title string, l denyOrphan) {
		return func(title string, l denyOrphan) {
			l.policies = policies
			out[title] = l
		}
	}
	with(fromPods(`matchExpressions: [{key: a, operator: Exists}]`))("label key", denyOrphan{
		before: []string{"pod y/q 10.0.1.1 a=1"}, after: []string{"pod y/r 10.0.1.2 a=2"}, set: "deny-podlabel-a"})
	with(fromPods(`matchLabels: {a: v1}`))("label", denyOrphan{
		before: []string{"pod y/q 10.0.1.1 a=v1"}, after: []string{"pod y/r 10.0.1.2 a=v1"}, set: "deny-podlabel-a:v1"})
	with(fromPods(`matchExpressions: [{key: a, operator: In, values: [v2, v1]}]`))("several values", denyOrphan{
		before: []string{"pod y/q 10.0.1.1 a=v2"}, after: []string{"pod y/q 10.0.1.1 a=v3"}, set: "deny-podlabel-a:v2"})
	with(fromPods(`matchExpressions: [{key: a, operator: NotIn, values: [v1]}]`))("computed", denyOrphan{
		before: []string{"pod y/q 10.0.1.1"}, after: []string{"pod y/q 10.0.1.1 a=v1"}, set: "deny-podselector-/a!=v1"})
	with(fromSpaces(`matchLabels: {team: a}`))("namespace label", denyOrphan{
		before: []string{"pod y/q 10.0.1.1"}, after: []string{"pod y/q 10.0.1.1", "namespace y"}, set: "deny-nslabel-team:a"})
	with(fromSpaces(`matchLabels: {team: a}`))("namespace", denyOrphan{
		before: []string{"pod y/q 10.0.1.1"}, after: []string{"pod y/q 10.0.1.2"}, set: "deny-ns-y"})
	with(fromSpaces(`matchExpressions: [{key: team, operator: NotIn, values: [b]}]`))("namespace selector", denyOrphan{
		before: []string{"pod y/q 10.0.1.1"}, after: []string{"pod y/q 10.0.1.1", "namespace y team=b"}, set: "deny-nslabel-{team!=b}"})
	with(fromSpaces(``))("all namespaces", denyOrphan{
		before: []string{"pod y/q 10.0.1.1"}, after: []string{"pod y/q 10.0.1.1", "namespace v"}, set: "deny-nslabel-all-namespaces"})
	with(fromSpaces(`matchLabels: {team: a}`))("doubt", denyOrphan{
		before: []string{"pod y/q 10.0.1.1"}, after: []string{"pod y/q 10.0.1.1", "pod unknown/q 10.0.1.2"}, set: doubtSet})
	with(fromSpaces(`matchLabels: {team: a}`))("addresses in doubt", denyOrphan{
		before: []string{"pod y/q 10.0.1.1"}, after: []string{"pod y/q 10.0.1.1", "pod z/q 10.0.1.1"}, set: doubtAddrs})
	with(denies(`egress: [{action: Deny, to: [{pods: {namespaceSelector: {}, podSelector: {matchLabels: {b: v1}}}}], protocols: [{destinationNamedPort: http}]}]`))("named port", denyOrphan{
		before: []string{"pod y/q 10.0.1.1 b=v1 port=http:81"}, after: []string{"pod y/q 10.0.1.1 b=v1 port=http:80"}, set: "deny-namedport:http:TCP:81"})
	with(nodeTiers)("denied nodes", denyOrphan{role: "web", set: dbNodes})
	with(nodeTiers)("accepted nodes", denyOrphan{role: "web", set: webNodes})
	with(blockAdmin, blockBase)("denied in a block", denyOrphan{before: []string{"pod y/q 10.0.1.1"}, after: []string{"pod y/q 10.0.1.1", "pod y/r 10.0.1.2"}, set: denyBlock})
	with(blockAdmin, blockBase)("accepted in a block", denyOrphan{before: []string{"pod y/q 10.0.1.1"}, after: []string{"pod y/q 10.0.1.1", "pod z/q 10.0.1.1"}, set: plainBlock})
	return out
}

// tell puts the whole state into the next transaction.
func (l denyOrphan) tell(w *world, objects []string, role string, policies ...string) {
	w.do("namespace x", "namespace y team=a", "namespace z team=b", "pod x/w 10.0.0.1 app=web")
	for _, o := range objects {
		if strings.HasPrefix(o, "pod ") {
			o += " remote"
		}
		w.do(o)
	}
	w.do("peer n1 10.1.0.1 role=" + role)
	w.do(policies...)
}

// reached is a node that was always in this state.
func (l denyOrphan) reached(t *testing.T, objects []string, role string, policies ...string) *world {
	t.Helper()
	w := newWorld(t)
	w.do("endpoint ep-1 10.0.0.1")
	l.tell(w, objects, role, policies...)
	w.settle()
	return w
}

// TestOrphanedDenySetsMove is TestOrphanedSetsMove for ClusterNetworkPolicies: what only
// rules in HNS name goes on having who belongs there, in doubt or not, until the rules go.
func TestOrphanedDenySetsMove(t *testing.T) {
	for title, l := range denyOrphans() {
		role := l.role
		if role == "" {
			role = "db"
		}
		between, end := l.reached(t, l.after, role, l.policies...), l.reached(t, l.after, role, nextTier)
		for how, restart := range restarts {
			t.Run(title+"/"+how, func(t *testing.T) {
				w := l.reached(t, l.before, "db", l.policies...)
				require.NotNil(t, w.has(l.set))
				require.NotEqual(t, w.has(l.set), between.has(l.set), "it changes")
				w.do("restart")
				all := probes(w.sim, []string{"10.0.1.1", "10.0.1.2", "10.1.0.1"}, 80, 81)
				stop := watchI4(t, w.sim, verdicts(t, w.sim, all), verdicts(t, between.sim, all), verdicts(t, end.sim, all))
				restart(w, func() { l.tell(w, l.after, role, nextTier) })
				require.ElementsMatch(t, between.has(l.set), w.has(l.set), "as if the policy still mentioned it")
				w.settle()
				require.Empty(t, cmp.Diff(end.sim.Dump(), w.sim.Dump()))
				require.Positive(t, stop())
			})
		}
	}
}
