package dataplane_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

// orphan is a set that only rules in HNS name, of policies that went while no process ran.
type orphan struct {
	old           []string // the policies
	next          string   // the policy that comes instead
	before, after []string // the pods, namespaces and nodes of the cluster
	set           string   // what only the rules of the old policies name
}

const (
	onlyB   = `ingress: [{from: [{podSelector: {matchLabels: {b: v1}}, namespaceSelector: {matchLabels: {is: new}}}]}]`
	labeled = `ingress: [{from: [{podSelector: {matchExpressions: [{key: b, operator: In, values: [v1]}, %s]}}]}]`
	spaced  = `ingress: [{from: [{podSelector: {matchLabels: {b: v1}}, namespaceSelector: {%s}}]}]`
	served  = `policyTypes: [Egress], egress: [{to: [%s], ports: [{port: http}]}]`
)

// oldPolicy is a policy of x/w before a restart, nextPolicy the one that replaces it.
func oldPolicy(spec string) []string {
	return []string{`policy x/old {podSelector: {matchLabels: {app: web}}, ` + spec + `}`}
}

func nextPolicy(spec string) string {
	return `policy x/next {podSelector: {matchLabels: {app: web}}, ` + spec + `}`
}

var orphans = map[string]orphan{
	"namespace": {
		old: oldPolicy(`ingress: [{from: [{podSelector: {matchLabels: {b: v1}}}]}]`), next: nextPolicy(onlyB), set: "ns-x",
		before: []string{"pod x/q 10.0.1.1"}, after: []string{"pod y/q 10.0.1.1 b=v1"},
	},
	"label key": {
		old: oldPolicy(fmt.Sprintf(labeled, `{key: a, operator: Exists}`)), next: nextPolicy(onlyB), set: "podlabel-a",
		before: []string{"pod x/q 10.0.1.1 a=1"}, after: []string{"pod x/q 10.0.1.1 b=v1"},
	},
	"label": {
		old: oldPolicy(fmt.Sprintf(labeled, `{key: a, operator: In, values: [v1]}`)), next: nextPolicy(onlyB), set: "podlabel-a:v1",
		before: []string{"pod x/q 10.0.1.1 a=v1"}, after: []string{"pod x/q 10.0.1.1 b=v1"},
	},
	"several values": {
		old: oldPolicy(fmt.Sprintf(labeled, `{key: a, operator: In, values: [v2, v1]}`)), next: nextPolicy(onlyB), set: "nestedlabel-a:v1:v2",
		before: []string{"pod x/q 10.0.1.1 a=v2"}, after: []string{"pod x/q 10.0.1.1 a=v3 b=v1"},
	},
	"computed": {
		old:    oldPolicy(`ingress: [{from: [{namespaceSelector: {matchLabels: {team: a}}, podSelector: {matchExpressions: [{key: a, operator: NotIn, values: [v1]}]}}]}]`),
		next:   nextPolicy(`ingress: [{from: [{namespaceSelector: {matchLabels: {team: a}}, podSelector: {matchLabels: {is: new}}}]}]`),
		before: []string{"pod z/q 10.0.1.1"}, after: []string{"pod y/q 10.0.1.1 a=v1"}, set: "podselector-/a!=v1",
	},
	"computed in a namespace": {
		old:    oldPolicy(`ingress: [{from: [{podSelector: {matchExpressions: [{key: a, operator: DoesNotExist}]}}]}]`),
		next:   nextPolicy(`ingress: [{from: [{podSelector: {matchLabels: {is: new}}}]}]`),
		before: []string{"pod y/q 10.0.1.1"}, after: []string{"pod x/q 10.0.1.1 a=1"}, set: "podselector-x/!a",
	},
	"namespace label": {
		old: oldPolicy(fmt.Sprintf(spaced, `matchLabels: {team: a}`)), next: nextPolicy(onlyB), set: "nslabel-team:a",
		before: []string{"pod y/q 10.0.1.1"}, after: []string{"pod z/q 10.0.1.1 b=v1"},
	},
	"namespace label, lost": {
		old: oldPolicy(fmt.Sprintf(spaced, `matchLabels: {team: a}`)), next: nextPolicy(onlyB), set: "nslabel-team:a",
		before: []string{"pod y/q 10.0.1.1"}, after: []string{"pod z/q 10.0.1.1 b=v1", "namespace y"},
	},
	"namespace, lost by a set that is wanted": {
		old: oldPolicy(fmt.Sprintf(spaced, `matchLabels: {team: a}`)), next: nextPolicy(`ingress: [{from: [{podSelector: {matchLabels: {b: v1, is: new}}, namespaceSelector: {matchLabels: {team: a}}}]}]`),
		before: []string{"pod y/q 10.0.1.1"}, after: []string{"pod z/q 10.0.1.1 b=v1", "namespace y"}, set: "ns-y",
	},
	"namespace selector": {
		old: oldPolicy(fmt.Sprintf(spaced, `matchExpressions: [{key: team, operator: NotIn, values: [b]}]`)), next: nextPolicy(onlyB), set: "nslabel-{team!=b}",
		before: []string{"pod y/q 10.0.1.1"}, after: []string{"pod z/q 10.0.1.1 b=v1"},
	},
	"all namespaces": {
		old: oldPolicy(fmt.Sprintf(spaced, ``)), next: nextPolicy(onlyB), set: "nslabel-all-namespaces",
		before: []string{"pod y/q 10.0.1.1"}, after: []string{"pod unknown/q 10.0.1.1 b=v1"},
	},
	"named port": {
		old: oldPolicy(fmt.Sprintf(served, `{podSelector: {matchLabels: {b: v1}}}`)), next: nextPolicy(`policyTypes: [Egress], egress: [{to: [{podSelector: {matchLabels: {b: v1, is: new}}}]}]`),
		before: []string{"pod x/q 10.0.1.1 port=http:81"}, after: []string{"pod x/q 10.0.1.1 b=v1 port=http:80"}, set: "namedport:http:TCP:81",
	},
	"named port of blocks": {
		old: oldPolicy(fmt.Sprintf(served, `{ipBlock: {cidr: 10.0.1.0/30, except: [10.0.1.2/32]}}`)), next: nextPolicy(`policyTypes: [Egress], egress: [{to: [{podSelector: {matchLabels: {is: new}}}]}]`),
		before: []string{"pod x/q 10.0.1.1 port=http:81"}, after: []string{"pod x/q 10.0.1.3 port=http:81", "pod x/r 10.0.1.2 port=http:81"},
		set: "namedport:http:TCP:81@10.0.1.0/31,10.0.1.3",
	},
}

// told puts the whole state into the next transaction.
func told(w *world, objects []string, policies ...string) {
	w.do("namespace x", "namespace y team=a", "namespace z team=b", "pod x/w 10.0.0.1 app=web")
	for _, o := range objects {
		if strings.HasPrefix(o, "pod ") {
			o += " remote"
		}
		w.do(o)
	}
	w.do(policies...)
}

// reachedAt is a node that was always in this state.
func reachedAt(t *testing.T, objects []string, policies ...string) *world {
	t.Helper()
	w := newWorld(t)
	w.do("endpoint ep-1 10.0.0.1")
	told(w, objects, policies...)
	w.settle()
	return w
}

// restarts are the ways in which a new process may come to know of what is there.
var restarts = map[string]func(w *world, tell func()){
	"at once": func(w *world, tell func()) {
		tell()
		w.do("fault ACL/Update * refuse", "! apply")
	},
	"sets later": func(w *world, tell func()) {
		tell()
		w.do("fault Network/Get * refuse", "! apply", "wait 1s", "fault ACL/Update * refuse", "! apply")
	},
	"endpoints later": func(w *world, tell func()) {
		tell()
		w.do("fault Endpoint/Enumerate * refuse", "! apply", "wait 1s", "fault ACL/Update * refuse", "! apply")
	},
	"by the reconciler": func(w *world, tell func()) {
		tell()
		w.do("fault Endpoint/Enumerate * refuse", "! apply", "observe", "fault ACL/Update * refuse", "! apply")
	},
	"an endpoint that was out of sight": func(w *world, tell func()) {
		w.do("state ep-1 Created")
		tell()
		w.do("apply", "state ep-1 AttachedSharing", "wait 1s", "fault ACL/Update * refuse", "! apply")
	},
}

// TestOrphanedSetsMove: while the Update that takes the rules of a policy away, which went while no
// process ran, does not come through, the sets that they name move on together, those of who is in
// doubt as well: no packet passes that no state allows. In the end nothing is left of them. A
// NetworkPolicy that does not select the pod any more is like one that went.
func TestOrphanedSetsMove(t *testing.T) {
	all := maps.Clone(orphans)
	maps.Copy(all, denyOrphans())
	for name, l := range all {
		between, end := reachedAt(t, l.after, l.old...), reachedAt(t, l.after, l.next)
		require.Nil(t, end.has(l.set))
		now := map[string][]string{"gone": {l.next}}
		if orphans[name].set != "" {
			now["idle"] = []string{l.next, strings.NewReplacer("x/old", "x/idle", "app: web", "app: none").Replace(l.old[0])}
		}
		for how, restart := range restarts {
			for title, policies := range now {
				t.Run(name+"/"+how+"/"+title, func(t *testing.T) {
					w := reachedAt(t, l.before, l.old...)
					require.NotNil(t, w.has(l.set))
					require.True(t, orphans[name].set != "" || !slices.Equal(w.has(l.set), between.has(l.set)), "the set changes")
					w.do("restart grace=1m")
					all := probes(w.sim, []string{"10.0.1.1", "10.0.1.2", "10.1.0.1"}, 80, 81)
					stop := watchI4(t, w.sim, verdicts(t, w.sim, all), verdicts(t, between.sim, all), verdicts(t, end.sim, all))

					restart(w, func() { told(w, l.after, policies...) })
					require.ElementsMatch(t, between.has(l.set), w.has(l.set), "as if the policy still mentioned it")
					w.settle()
					require.NotNil(t, w.has(l.set), "for the grace period")
					w.do("wait 1m", "apply")
					require.Equal(t, w.report.Calls["SetPolicy/Remove"], w.writes())
					require.Empty(t, cmp.Diff(end.sim.Dump(), w.sim.Dump()))
					require.Positive(t, stop())
				})
			}
		}
	}
}

// unusedPort are peers of a rule with a named port; the last one has too many
// blocks for a readable name.
var unusedPort = map[string]string{
	"pods":        `{podSelector: {}}`,
	"block":       `{ipBlock: {cidr: 10.0.0.0/16}}`,
	"addresses":   `{ipBlock: {cidr: 10.0.1.0/30, except: [10.0.1.2/32]}}`,
	"many blocks": `{ipBlock: {cidr: 10.0.0.0/16, except: [10.0.9.9/32]}}`,
}

// TestUnusedPortAfterRestart: the rule of a number that no pod serves any more may
// stay until the endpoint's next Update, whichever process put it there, and
// however the new one comes to know of it: before it has read the sets it does not
// know it for one.
func TestUnusedPortAfterRestart(t *testing.T) {
	for name, peer := range unusedPort {
		for how, first := range map[string][]string{
			"at once":         nil,
			"sets later":      {"fault Network/Get * refuse", "fault ACL/Update * refuse", "! apply", "wait 1s"},
			"endpoints later": {"fault Endpoint/Enumerate * refuse", "! apply", "calls", "wait 1s"},
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				old, next := oldPolicy(fmt.Sprintf(served, peer))[0], nextPolicy(onlyB)
				w := reachedAt(t, []string{"pod x/q 10.0.1.1 port=http:80", "pod x/r 10.0.1.3 port=http:81"}, old)
				w.do("delete pod x/r", "apply", "calls SetPolicy/Update=1")
				before := w.sim.Dump()
				require.Equal(t, 2, strings.Count(before, "remote="), before)

				w.do("restart")
				told(w, []string{"pod x/q 10.0.1.1 port=http:80"}, old)
				w.do(append(first, "apply", "calls")...)
				require.True(t, w.report.Converged())
				require.Empty(t, cmp.Diff(before, w.sim.Dump()))

				w.do("pod x/r 10.0.1.3 port=http:81 remote", "apply", "calls SetPolicy/Update=1", "trace 10.0.0.1 -> 10.0.1.3 TCP/81 ep-1 out allow",
					"delete pod x/r", "apply", "calls SetPolicy/Update=1", next, "delete policy x/old", "apply")
				w.settle()
				end := reachedAt(t, []string{"pod x/q 10.0.1.1 port=http:80"}, next)
				require.Empty(t, cmp.Diff(end.sim.Dump(), w.sim.Dump()), "it goes with the Update")
			})
		}
	}
}

// The sets of who is in doubt.
const (
	doubtSet   = "deny-doubt-all"
	doubtAddrs = "deny-doubtaddresses-all"
)

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
func denyOrphans() map[string]orphan {
	out := map[string]orphan{}
	dbNode, webNode := []string{"peer n1 10.1.0.1 role=db"}, []string{"peer n1 10.1.0.1 role=web"}
	with := func(policies ...string) func(title string, l orphan) {
		return func(title string, l orphan) {
			l.old, l.next = policies, nextTier
			out["deny, "+title] = l
		}
	}
	with(fromPods(`matchExpressions: [{key: a, operator: Exists}]`))("label key", orphan{
		before: []string{"pod y/q 10.0.1.1 a=1"}, after: []string{"pod y/r 10.0.1.2 a=2"}, set: "deny-podlabel-a"})
	with(fromPods(`matchLabels: {a: v1}`))("label", orphan{
		before: []string{"pod y/q 10.0.1.1 a=v1"}, after: []string{"pod y/r 10.0.1.2 a=v1"}, set: "deny-podlabel-a:v1"})
	with(fromPods(`matchExpressions: [{key: a, operator: In, values: [v2, v1]}]`))("several values", orphan{
		before: []string{"pod y/q 10.0.1.1 a=v2"}, after: []string{"pod y/q 10.0.1.1 a=v3"}, set: "deny-podlabel-a:v2"})
	with(fromPods(`matchExpressions: [{key: a, operator: NotIn, values: [v1]}]`))("computed", orphan{
		before: []string{"pod y/q 10.0.1.1"}, after: []string{"pod y/q 10.0.1.1 a=v1"}, set: "deny-podselector-/a!=v1"})
	with(fromSpaces(`matchLabels: {team: a}`))("namespace label", orphan{
		before: []string{"pod y/q 10.0.1.1"}, after: []string{"pod y/q 10.0.1.1", "namespace y"}, set: "deny-nslabel-team:a"})
	with(fromSpaces(`matchLabels: {team: a}`))("namespace", orphan{
		before: []string{"pod y/q 10.0.1.1"}, after: []string{"pod y/q 10.0.1.2"}, set: "deny-ns-y"})
	with(fromSpaces(`matchExpressions: [{key: team, operator: NotIn, values: [b]}]`))("namespace selector", orphan{
		before: []string{"pod y/q 10.0.1.1"}, after: []string{"pod y/q 10.0.1.1", "namespace y team=b"}, set: "deny-nslabel-{team!=b}"})
	with(fromSpaces(``))("all namespaces", orphan{
		before: []string{"pod y/q 10.0.1.1"}, after: []string{"pod y/q 10.0.1.1", "namespace v"}, set: "deny-nslabel-all-namespaces"})
	with(fromSpaces(`matchLabels: {team: a}`))("doubt", orphan{
		before: []string{"pod y/q 10.0.1.1"}, after: []string{"pod y/q 10.0.1.1", "pod unknown/q 10.0.1.2"}, set: doubtSet})
	with(fromSpaces(`matchLabels: {team: a}`))("addresses in doubt", orphan{
		before: []string{"pod y/q 10.0.1.1"}, after: []string{"pod y/q 10.0.1.1", "pod z/q 10.0.1.1"}, set: doubtAddrs})
	with(denies(`egress: [{action: Deny, to: [{pods: {namespaceSelector: {}, podSelector: {matchLabels: {b: v1}}}}], protocols: [{destinationNamedPort: http}]}]`))("named port", orphan{
		before: []string{"pod y/q 10.0.1.1 b=v1 port=http:81"}, after: []string{"pod y/q 10.0.1.1 b=v1 port=http:80"}, set: "deny-namedport:http:TCP:81"})
	with(nodeTiers)("denied nodes", orphan{before: dbNode, after: webNode, set: dbNodes})
	with(nodeTiers)("accepted nodes", orphan{before: dbNode, after: webNode, set: webNodes})
	with(blockAdmin, blockBase)("denied in a block", orphan{before: []string{"pod y/q 10.0.1.1"}, after: []string{"pod y/q 10.0.1.1", "pod y/r 10.0.1.2"}, set: denyBlock})
	with(blockAdmin, blockBase)("accepted in a block", orphan{before: []string{"pod y/q 10.0.1.1"}, after: []string{"pod y/q 10.0.1.1", "pod z/q 10.0.1.1"}, set: plainBlock})
	return out
}
